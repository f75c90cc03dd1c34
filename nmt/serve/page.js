// The page of the service: it asks the API what a worker answers on the exported page.
const PAUSE = 250; // milliseconds without a key before the text is sent

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
        this.onmessage({ data: { id, index, translation } });
      });
      this.onmessage({ data: { id, done: true } });
    } catch (error) {
      this.onmessage({ data: { id, error: error.message } });
    }
  }
}

class ServerPage extends Page {
  settings() {
    return { source: byId("from").value, target: byId("to").value };
  }

  async open() {
    const [languages, settings] = await Promise.all([this.worker.ask("languages"), this.worker.ask("frontend/settings")]);
    this.names = Object.fromEntries(languages.map(({ code, name }) => [code, languageName(code, name)]));
    this.targets = Object.fromEntries(languages.map(({ code, targets }) => [code, targets]));
    byId("key-label").hidden = !settings.keyRequired;
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
    this.fill("to", this.targets[byId("from").value]);
    this.setLanguages(byId("from").value, byId("to").value);
    if (this.input.value) this.request();
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
      entry.replaceChildren(link, ` (${documentSummary(answer)}; kept for ten minutes)`);
    } catch (error) {
      entry.className = "failed";
      entry.textContent = `${file.name}: ${error.message}`;
    }
  }
}

function documentSummary({ sentences, unsureSentences }) {
  const counted = `${sentences} ${sentences === 1 ? "sentence" : "sentences"}`;
  return unsureSentences === undefined ? counted : `${counted}, ${unsureSentences} to review`;
}

const page = new ServerPage(new Server());
page.open().catch((error) => page.refuse(error.message));
