// The page of the service: it asks the API what a worker answers on the exported page.
const PAUSE = 250; // milliseconds without a key before the text is sent
const MAX_FIELDS = 20; // lines that can be corrected
const MAX_WORDS = 400; // of a text whose difference from another is shown

class Server {
  async ask(path, body) {
    const isForm = body instanceof FormData;
    const headers = isForm || !body ? {} : { "Content-Type": "application/json" };
    if (byId("key").value) headers.Authorization = `Bearer ${byId("key").value}`;
    const options = body ? { method: "POST", headers, body: isForm ? body : JSON.stringify(body) } : {};
    const response = await fetch(path, options).catch(() => {
      throw new Error("The service cannot be reached.");
    });
    const answer = await response.json().catch(() => ({})); // what lies between may answer in its own form
    if (!response.ok) throw new Error(answer.error || `The service answers ${response.status} ${response.statusText}`);
    return answer;
  }

  postMessage(request) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.translate(request), PAUSE);
  }

  async translate({ id, lines, source, target, attention }) {
    try {
      const answer = await this.ask("translate", { q: lines, source, target, details: attention || "words" });
      answer.translatedText.forEach((text, index) => {
        const translation = { text, parts: answer.details[index], lacksAttention: !attention };
        translation.isRemembered = Boolean(answer.memory?.[index]);
        translation.similar = answer.similar?.[index] || [];
        this.onmessage({ data: { id, index, translation } });
      });
      this.onmessage({ data: { id, done: true } });
    } catch (error) {
      this.onmessage({ data: { id, error: error.message } });
    }
  }
}

class ServerPage extends Page {
  constructor(worker) {
    super(worker);
    this.fields = new Map(); // by line: where its correction is written
    this.newestField = 0;
  }

  settings() {
    return { source: byId("from").value, target: byId("to").value };
  }

  async open() {
    const [languages, settings] = await Promise.all([this.worker.ask("languages"), this.worker.ask("frontend/settings")]);
    this.names = Object.fromEntries(languages.map(({ code, name }) => [code, languageName(code, name)]));
    this.targets = Object.fromEntries(languages.map(({ code, targets }) => [code, targets]));
    byId("key-label").hidden = !settings.keyRequired;
    byId("correct").hidden = !settings.suggestions;
    byId("correct").addEventListener("toggle", () => this.showFields());
    byId("file").accept = settings.supportedFilesFormat.join();
    this.fill("from", languages.filter(({ targets }) => targets.length).map(({ code }) => code));
    const { source, target } = settings.language;
    byId("from").value = source.code;
    this.fill("to", this.targets[source.code]);
    byId("to").value = target.code;
    this.choose();
    byId("from").addEventListener("change", () => this.choose());
    byId("to").addEventListener("change", () => this.choose());
    byId("key").addEventListener("change", () => this.request());
    byId("file").addEventListener("change", ({ target }) => {
      this.send([...target.files]);
      target.value = ""; // so that the same file can be chosen again
    });
    for (const kind of ["dragover", "dragleave", "drop"]) document.addEventListener(kind, (event) => this.drag(event));
    this.say(this.summary());
    if (this.input.value) this.request();
  }

  fill(id, codes) {
    const before = byId(id).value;
    const sorted = codes.toSorted((left, right) => this.names[left].localeCompare(this.names[right]));
    const options = sorted.map((code) => Object.assign(create("option", this.names[code]), { value: code }));
    byId(id).replaceChildren(...options);
    if (codes.includes(before)) byId(id).value = before;
  }

  choose() {
    this.fields.clear();
    this.fill("to", this.targets[byId("from").value]);
    this.setLanguages(byId("from").value, byId("to").value);
    if (this.input.value) this.request();
  }

  show() {
    super.show();
    this.showMemory();
    this.showFields();
  }

  summary() {
    const count = this.lines.filter((line) => this.translationOf(line)?.isRemembered).length;
    if (!count) return super.summary();
    const said = count === 1 ? "One line was translated before." : `${count} lines were translated before.`;
    return `${said} ${super.summary()}`;
  }

  // Which lines come from the memory, and what it has that is similar to the others.
  showMemory() {
    const entries = [];
    for (const [index, line] of this.lines.entries()) {
      const { isRemembered, similar = [] } = this.translationOf(line) || BLANK;
      this.output.children[index].classList.toggle("remembered", Boolean(isRemembered));
      if (this.lines.indexOf(line) === index) entries.push(...similar.map((match) => this.similarEntry(line, match)));
    }
    byId("similar").replaceChildren(...entries);
    byId("memory").hidden = !entries.length;
  }

  similarEntry(line, { text, similarity, source, target }) {
    const entry = create("li");
    const before = create("p");
    before.lang = this.input.lang;
    before.dir = "auto";
    before.append(...difference(source, text));
    const after = create("p", target);
    after.lang = this.output.lang;
    after.dir = "auto";
    entry.append(create("p", `${Math.floor(100 * similarity)} % similar`, "side"), before, after);
    // of one sentence of several it would take the place of all
    const isWhole = text.trim() === line.replace(/\s+/g, " ").trim();
    if (!byId("correct").hidden && isWhole && this.correctable().includes(line)) {
      const use = create("button", "Correct with this");
      use.setAttribute("aria-label", `Correct with this: ${target}`);
      use.type = "button";
      use.addEventListener("click", () => {
        byId("correct").open = true;
        this.showFields();
        const { area } = this.fields.get(line);
        area.value = target;
        area.focus();
      });
      entry.append(use);
    }
    return entry;
  }

  // The first lines that have been translated, each once.
  correctable() {
    const hasText = (line) => line.trim() && (this.fields.has(line) || this.translationOf(line));
    const lines = [...new Set(this.lines)].filter(hasText);
    byId("uncorrected").hidden = lines.length <= MAX_FIELDS;
    return lines.slice(0, MAX_FIELDS);
  }

  // A field for each of them; what somebody has written into it stays while the line stays.
  showFields() {
    const lines = this.correctable();
    for (const line of this.fields.keys()) if (!this.lines.includes(line)) this.fields.delete(line);
    if (!byId("correct").open) return;
    for (const line of lines) {
      if (!this.fields.has(line)) this.fields.set(line, this.makeField(line));
      const field = this.fields.get(line);
      const { text } = this.translationOf(line) || { text: field.shown };
      if (field.area.value === field.shown) field.area.value = text;
      field.shown = text;
    }
    const elements = lines.map((line) => this.fields.get(line).element);
    const shown = [...byId("corrections").children];
    if (elements.length !== shown.length || elements.some((element, index) => element !== shown[index])) {
      byId("corrections").replaceChildren(...elements);
    }
  }

  makeField(line) {
    const element = create("div", "", "correction");
    const label = create("label", line);
    label.lang = this.input.lang;
    label.dir = "auto";
    const area = create("textarea");
    area.id = `correction-${++this.newestField}`;
    area.lang = this.output.lang;
    area.dir = this.output.dir;
    area.rows = 1;
    area.autocomplete = "off";
    area.enterKeyHint = "done";
    label.htmlFor = area.id;
    const save = create("button", "Save the correction");
    save.setAttribute("aria-label", `Save the correction of ${line}`);
    save.type = "button";
    const status = create("span", "", "side");
    status.setAttribute("role", "status");
    const field = { element, area, save, status, shown: "" };
    save.addEventListener("click", () => this.save(line, field));
    area.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing) return;
      event.preventDefault();
      this.save(line, field);
    });
    const controls = create("div", "", "controls");
    controls.append(save, status);
    element.append(label, area, controls);
    return field;
  }

  async save(line, { area, save, status }) {
    const correction = area.value.replace(/\s+/g, " ").trim();
    const say = (text, state = "") => Object.assign(status, { textContent: text, className: `side ${state}` });
    if (!correction) return say("Write the correction first.", "failed");
    say("Saving …", "busy");
    save.disabled = true;
    try {
      const answer = await this.worker.ask("suggest", { q: line, s: correction, ...this.settings() });
      const before = answer.instead ? ` It differs from an earlier one: ${answer.instead.join(" ")}` : "";
      say(`${answer.accepted ? "Saved; it is used from now on." : "Saved; it is used once it has been accepted."}${before}`);
      if (answer.accepted) {
        this.known.delete(line);
        this.request();
      }
    } catch (error) {
      say(error.message, "failed");
    } finally {
      save.disabled = false;
    }
  }

  // Text that is dragged into the box is the browser's business.
  drag(event) {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.toggle("dropping", event.type === "dragover");
    if (event.type === "drop") this.send([...event.dataTransfer.files]);
  }

  async send(files) {
    const entries = files.map((file) => create("li", `${file.name} is being translated …`, "busy"));
    byId("documents").prepend(...entries);
    for (const [index, file] of files.entries()) await this.sendOne(file, entries[index]);
  }

  async sendOne(file, entry) {
    const form = new FormData();
    form.append("file", file);
    for (const [name, code] of Object.entries(this.settings())) form.append(name, code);
    try {
      await file.slice(0, 1).arrayBuffer().catch(() => {
        throw new Error("It cannot be read; drop files, not folders.");
      });
      const answer = await this.worker.ask("translate_file", form);
      const link = create("a", `The translation of ${file.name}`);
      link.href = new URL(answer.translatedFileUrl).pathname;
      link.download = "";
      entry.className = "";
      entry.replaceChildren(link, ` (${documentSummary(answer)}; kept for ten minutes at most)`);
    } catch (error) {
      entry.className = "failed";
      entry.textContent = `${file.name}: ${error.message}`;
    }
  }
}

function documentSummary({ sentences, unsureSentences, memorySentences }) {
  const said = [`${sentences} ${sentences === 1 ? "sentence" : "sentences"}`];
  if (memorySentences) said.push(`${memorySentences} translated before`);
  if (unsureSentences !== undefined) said.push(`${unsureSentences} to review`);
  return said.join(", ");
}

// The words of two texts as one: <del> where only the first has them, <ins> where only the second has.
function difference(first, second) {
  const [before, after] = [first, second].map((text) => text.match(/\s+|[\p{L}\p{M}\p{N}]+|./gu) || []);
  if (before.length + after.length > MAX_WORDS) return [create("del", first), " ", create("ins", second)];

  // common[i][j]: how many words the texts from word i and from word j on have in common, in order
  const common = Array.from({ length: before.length + 1 }, () => new Array(after.length + 1).fill(0));
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      common[i][j] = before[i] === after[j] ? 1 + common[i + 1][j + 1] : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }

  const parts = []; // [name of the element, text]
  const add = (name, text) => (parts.at(-1)?.[0] === name ? (parts.at(-1)[1] += text) : parts.push([name, text]));
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && before[i] === after[j]) {
      add("", before[i++]);
      j++;
    } else if (i < before.length && (j === after.length || common[i + 1][j] >= common[i][j + 1])) add("del", before[i++]);
    else add("ins", after[j++]);
  }
  return parts.map(([name, text]) => (name ? create(name, text) : text));
}

const page = new ServerPage(new Server());
page.open().catch((error) => page.refuse(error.message));
