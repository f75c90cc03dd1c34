"use strict";
// The page: what is typed goes to the worker, translations come back. A line that stays keeps its translation; that of
// any other text goes at once. Everything that was typed or translated becomes text, never markup.
const MAX_DRAWN = 20; // lines whose attention is shown
const UNSURE = 0.5; // words of a lower confidence are marked
const REVIEW = 50; // a translation with a lower expected chrF should be read
const MAX_FAULTS = 3; // faulty lines that are named
const RIGHT_TO_LEFT = ["Adlm", "Arab", "Hebr", "Mand", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa"]; // scripts
const BLANK = { text: "", parts: [] };
const byId = (id) => document.getElementById(id);

class Page {
  constructor(worker) {
    Object.assign(this, { worker, newest: 0, lines: [], missing: [], known: new Map(), sections: new WeakMap() });
    this.input = byId("source");
    this.output = byId("translation");
    this.attention = byId("attention");
    worker.onmessage = ({ data }) => this.receive(data);
    worker.onerror = (event) => this.refuse(`The translator stopped: ${event.message || "its worker cannot be started"}`);
    this.input.addEventListener("input", () => this.request());
    this.attention.addEventListener("toggle", () => this.input.value.trim() && this.request());
    byId("beam")?.addEventListener("change", () => this.request());
    byId("copy").addEventListener("click", () => this.copy());
    byId("clear").addEventListener("click", () => this.clear());
  }

  // Screen readers, fonts and hyphens go by `lang`; an empty box of a language from right to left begins on the right.
  setLanguages(source, target) {
    Object.assign(document.body.dataset, { source, target });
    for (const [element, code] of [[this.input, source], [this.output, target]]) {
      element.lang = languageTag(code);
      element.dir = languageDirection(code);
    }
  }

  say(text, state = "") {
    byId("status").className = state;
    byId("status").textContent = text;
  }

  // What a translation depends on beside its line.
  settings() {
    return { beam: Number(byId("beam")?.value) };
  }

  translationOf(line) {
    return line.trim() ? this.known.get(line) : BLANK;
  }

  request() {
    this.lines = this.input.value.split("\n");
    const settings = this.settings();
    const lines = new Set(this.lines);
    const isOther = JSON.stringify(settings) !== this.settled;
    for (const line of this.known.keys()) if (isOther || !lines.has(line)) this.known.delete(line);
    this.settled = JSON.stringify(settings);
    this.missing = [...lines].filter((line) => this.isMissing(line));
    this.newest++;
    this.output.setAttribute("aria-busy", "true");
    this.show();
    if (!this.missing.length) return this.finish();
    byId("copy").disabled = true;
    this.say("Translating …", "busy");
    this.worker.postMessage({ id: this.newest, lines: this.missing, ...settings, attention: this.attention.open });
  }

  isMissing(line) {
    const translation = this.translationOf(line);
    return !translation || (translation.lacksAttention && this.attention.open);
  }

  receive({ ready, id, error, index, translation, done }) {
    if (ready) return this.input.value.trim() || this.say(this.summary());
    if (id !== undefined && id !== this.newest) return;
    if (error) return this.refuse(error);
    if (done) return this.finish();
    this.known.set(this.missing[index], translation);
    this.show();
  }

  // Nothing that was said before stands beside the reason.
  refuse(reason) {
    this.newest++;
    this.known.clear();
    this.lines = [];
    this.finish();
    this.say(reason, "failed");
  }

  finish() {
    this.show();
    this.output.setAttribute("aria-busy", "false");
    byId("copy").disabled = !this.output.textContent.trim();
    document.body.dataset.done = this.newest;
    this.say(this.summary());
  }

  show() {
    while (this.output.children.length > this.lines.length) this.output.lastChild.remove();
    while (this.output.children.length < this.lines.length) this.output.append(create("p", "", "waiting"));
    this.lines.forEach((line, index) => {
      const paragraph = this.output.children[index];
      const translation = this.translationOf(line);
      paragraph.dir = this.output.dir;
      if (translation === paragraph.translation) return;
      paragraph.translation = translation;
      paragraph.className = !translation ? "waiting" : line.trim() && !translation.text.trim() ? "empty" : "";
      paragraph.replaceChildren(...(translation ? marked(translation) : []));
      paragraph.title = translation ? qualityOf(translation.parts) : "";
    });
    if (this.attention.open) this.draw();
  }

  draw() {
    const place = byId("sentences");
    const chosen = place.querySelector("select")?.selectedIndex || 0;
    const translations = this.lines.slice(0, MAX_DRAWN).map((line) => this.translationOf(line));
    const drawn = [...new Set(translations)].filter((each) => each && !each.lacksAttention);
    const sections = drawn.flatMap((translation) => {
      const parts = translation.parts.filter(({ matrices }) => matrices.length);
      if (!this.sections.has(translation)) this.sections.set(translation, parts.map((part) => pairSection(part, chosen)));
      return this.sections.get(translation);
    });
    place.replaceChildren(...sections);
    const hasNone = !sections.length && drawn.some(({ parts }) => parts.length);
    const isCut = this.lines.length > MAX_DRAWN;
    byId("note").textContent = hasNone
      ? "There is none: the model has no attention, or the sentence is too long to be drawn."
      : isCut ? `These are the first ${MAX_DRAWN} lines.` : "";
  }

  // What is said of all lines: the words that may be wrong, and the lines without a translation.
  summary() {
    const translations = this.lines.map((line) => this.translationOf(line));
    const confidences = translations.flatMap(({ parts }) => parts.flatMap(confidencesOfWords));
    const unsure = confidences.filter((confidence) => confidence < UNSURE).length;
    const empty = this.output.querySelectorAll(".empty").length;
    const said = [];
    if (empty) said.push(empty === 1 ? "One line has got no translation." : `${empty} lines have got no translation.`);
    if (unsure) said.push(`${shareOf(unsure, confidences.length)} more likely wrong than right (wavy line).`);
    else if (confidences.length) said.push("Each word is more likely right than wrong.");
    said.push(...this.faults(translations));
    if (!this.input.value.trim()) said.push("Ready. Type, and the translation follows.");
    return said.join(" ") || "Translated.";
  }

  // What is said of translations that seem to have a fault, by their lines.
  faults(translations) {
    const faults = translations.map(({ parts }) => {
      const found = faultsOf(parts);
      const expected = expectedChrf(parts);
      if (expected < REVIEW) found.push(`probably needs correction (expected chrF ${Math.round(expected)})`);
      return found.join("; ");
    });
    const faulty = faults.flatMap((fault, index) => (fault ? [index] : []));
    const said = faulty.slice(0, MAX_FAULTS).map((index) => {
      return translations.length > 1 ? `Line ${index + 1}: ${faults[index]}.` : `The translation ${faults[index]}.`;
    });
    if (faulty.length > MAX_FAULTS) said.push(`And ${faulty.length - MAX_FAULTS} more such lines.`);
    return said;
  }

  async copy() {
    const text = [...this.output.children].map((line) => line.textContent).join("\n");
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      copySelected(this.output);
    }
    this.say(`Copied. ${this.summary()}`);
  }

  clear() {
    this.input.value = "";
    this.request();
    this.input.focus();
  }
}

// For browsers that give a page from a disk no clipboard.
function copySelected(element) {
  const selection = getSelection();
  selection.selectAllChildren(element);
  document.execCommand("copy");
  selection.removeAllRanges();
}

const isWord = (text) => /[\p{L}\p{N}]/u.test(text);

// Those of the words, without punctuation.
function confidencesOfWords({ target, confidences }) {
  return confidences.filter((_, index) => isWord(target[index]));
}

function shareOf(count, total) {
  if (count === total) return total === 1 ? "The word is" : `All ${total} words are`;
  return `${count} of ${total} words ${count === 1 ? "is" : "are"}`;
}

// The text, with the words that are more likely wrong than right marked.
function marked({ text, parts }) {
  const found = [];
  let [end, place] = [0, 0]; // of what is written, and of the word before
  for (const { target, confidences } of parts) {
    target.forEach((word, index) => {
      const at = text.indexOf(word, place);
      if (at < 0) return;
      place = at + word.length;
      if (confidences[index] >= UNSURE || !isWord(word)) return;
      const mark = create("mark", word);
      mark.title = `right with a probability of ${confidences[index].toFixed(2)}`;
      found.push(text.slice(end, at), mark);
      end = place;
    });
  }
  return [...found, text.slice(end)];
}

const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

// The mean over the words of all parts; NaN where it is not known.
function expectedChrf(parts) {
  return meanOf(parts.flatMap(({ expected_chrf, confidences }) => confidences.map(() => expected_chrf)));
}

// The expected chrF, or the mean confidence of the words where it is not known.
function qualityOf(parts) {
  const confidences = parts.flatMap((part) => part.confidences);
  const expected = expectedChrf(parts);
  if (!confidences.length) return "";
  if (Number.isNaN(expected)) return `confidence ${Math.round(100 * meanOf(confidences))} %`;
  return [`expected chrF ${Math.round(expected)}`, ...faultsOf(parts)].join("; ");
}

function faultsOf(parts) {
  const faults = [];
  if (parts.some(({ detached }) => detached)) faults.push("does not seem to follow from the text");
  const omitted = parts.flatMap(({ omitted: spans = [] }) => spans);
  if (omitted.length) faults.push(`seems to leave out “${omitted.join("”, “")}”`);
  return faults;
}

// A code as browsers know it: deu_Latn is de-Latn; "" where it is none of a language.
function languageTag(code) {
  try {
    return Intl.getCanonicalLocales(code.replaceAll("_", "-"))[0];
  } catch {
    return "";
  }
}

// Its name for the reader and its own, as in "German – Deutsch"; `english` where the browser has no name.
function languageName(code, english) {
  const tag = languageTag(code);
  if (!tag) return english;
  const nameIn = (locales) => new Intl.DisplayNames(locales, { type: "language", fallback: "none" }).of(tag);
  const name = nameIn([...navigator.languages, "en"]) || english;
  const own = Intl.DisplayNames.supportedLocalesOf(tag).length ? nameIn(tag) : "";
  return own && own !== name ? `${name} – ${own}` : name;
}

// rtl, else auto: after the first letter with a strong direction.
function languageDirection(code) {
  const tag = languageTag(code);
  return tag && RIGHT_TO_LEFT.includes(new Intl.Locale(tag).maximize().script) ? "rtl" : "auto";
}

// ltr or rtl, after the first letter with a strong direction, as far as scripts tell it.
function directionOf(words) {
  const letter = words.join(" ").match(/\p{L}/u);
  const isRight = letter && /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u.test(letter[0]);
  return isRight ? "rtl" : "ltr";
}

function sentence(side, words) {
  const group = create("div", "", `words ${side}`);
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", `words of the ${side}`);
  group.dir = directionOf(words);
  group.lang = languageTag(document.body.dataset[side]);
  group.append(...words.map((word) => {
    const button = create("button");
    button.type = "button";
    button.append(create("bdi", word));
    return button;
  }));
  return group;
}

// The attention of one sentence, drawn by page.js.
function pairSection(part, chosen) {
  const section = create("section", "", "pair");
  section.setAttribute("aria-label", `attention: ${part.text}`);
  const label = create("label", "attention of ", "side");
  const select = create("select");
  select.autocomplete = "off";
  part.matrices.forEach(({ name }, index) => {
    const option = create("option", name);
    option.value = index;
    select.append(option);
  });
  select.selectedIndex = Math.min(chosen, part.matrices.length - 1);
  label.append(select);
  const summary = create("p", "", "summary");
  summary.setAttribute("aria-live", "polite");
  const scroll = create("div", "", "scroll");
  for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", `weights: ${part.text}`]]) {
    scroll.setAttribute(name, value);
  }
  const table = create("table", "", "map");
  table.setAttribute("aria-label", "weights: a row for each target word");
  scroll.append(table);
  section.append(label, sentence("source", part.source), sentence("target", part.target), summary, scroll);
  const matrices = part.matrices.map(({ weights }) => weights.map((weight) => Math.round(1000 * weight)));
  const { source, target, windows, confidences } = part;
  start(section, { source, target, confidences, matrices, sure: [], possible: [], window_spans: windows });
  return section;
}
