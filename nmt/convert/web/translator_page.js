"use strict";
// The page: what is typed goes to the worker, translations come back; the attention of each line is drawn by `start`
// of page.js. Everything that was typed or translated becomes text, never markup.
const MAX_DRAWN = 20; // lines whose attention is shown
const UNSURE = 0.5; // words of a lower confidence are marked
const byId = (id) => document.getElementById(id);

class Page {
  constructor(worker) {
    Object.assign(this, { worker, newest: 0, lines: [], views: new Map(), begun: 0 });
    this.input = byId("source");
    this.output = byId("translation");
    worker.onmessage = ({ data }) => this.receive(data);
    worker.onerror = (event) => this.fail(event.message || "the worker cannot be started");
    this.input.addEventListener("input", () => this.request());
    byId("beam")?.addEventListener("change", () => this.request());
    byId("copy").addEventListener("click", () => this.copy());
    byId("clear").addEventListener("click", () => this.clear());
  }

  say(text) {
    byId("status").textContent = text;
  }

  fail(reason) {
    byId("status").className = "failed";
    this.say(`The translator stopped: ${reason}`);
  }

  request() {
    this.begun = performance.now();
    const lines = this.input.value.split("\n");
    this.output.classList.add("waiting");
    this.worker.postMessage({ id: ++this.newest, lines, beam: Number(byId("beam")?.value) });
    this.lines = lines;
  }

  receive(data) {
    if (data.error) return this.fail(data.error);
    if (data.ready) return this.input.value.trim() || this.say("Ready. Type, and the translation follows.");
    if (data.id !== this.newest) return;
    if (data.done) return this.finish();
    this.show(data.index, data.translation);
  }

  finish() {
    while (this.output.children.length > this.lines.length) this.output.lastChild.remove();
    this.output.classList.remove("waiting");
    for (const [index, view] of this.views) if (index >= this.lines.length) this.forget(index, view);
    document.body.dataset.done = this.newest;
    const isEmpty = !this.input.value.trim();
    this.say(isEmpty ? "Ready." : `Translated in ${Math.round(performance.now() - this.begun)} ms.`);
  }

  forget(index, view) {
    view.sections.forEach((section) => section.remove());
    this.views.delete(index);
  }

  show(index, translation) {
    while (this.output.children.length <= index) this.output.append(Object.assign(create("p"), { dir: "auto" }));
    const line = this.output.children[index];
    if (line.textContent !== translation.text) line.replaceChildren(...marked(translation));
    line.title = confidenceOf(translation.parts);
    const before = this.views.get(index);
    if (before?.translation.key === (translation.key = `${this.lines[index]}\n${translation.text}`)) return;
    const chosen = before?.sections[0]?.querySelector("select")?.selectedIndex || 0;
    if (before) this.forget(index, before);
    if (index >= MAX_DRAWN) return;
    const sections = translation.parts.filter((part) => part.matrices.length).map((part) => pairSection(part, chosen));
    this.place(index, sections);
    this.views.set(index, { translation, sections });
  }

  place(index, sections) {
    const later = [...this.views.keys()].filter((key) => key > index).sort((left, right) => left - right);
    const next = later.map((key) => this.views.get(key).sections[0]).find(Boolean);
    for (const section of sections) byId("attention").insertBefore(section, next || null);
  }

  async copy() {
    const text = [...this.output.children].map((line) => line.textContent).join("\n");
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      copySelected(this.output);
    }
    this.say("Copied.");
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

// The text, with the words that are more likely wrong than right marked.
function marked({ text, parts }) {
  const found = [];
  let end = 0;
  for (const { target, confidences } of parts) {
    target.forEach((word, index) => {
      const at = text.indexOf(word, end);
      if (at < 0 || confidences[index] >= UNSURE) return;
      const mark = create("mark", word);
      mark.title = `right with a probability of ${confidences[index].toFixed(2)}`;
      found.push(text.slice(end, at), mark);
      end = at + word.length;
    });
  }
  return [...found, text.slice(end)];
}

// The mean over the words: the share of them that is expected to be right.
function confidenceOf(parts) {
  const values = parts.flatMap(({ confidences }) => confidences);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.length ? `confidence ${Math.round(100 * mean)} %` : "";
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
  group.lang = document.body.dataset[side];
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
