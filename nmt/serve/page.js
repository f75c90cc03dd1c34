// The page of the service: it asks the API what a worker answers on the exported page.
const PAUSE = 250; // milliseconds without a key before the text is sent

class Server {
  async ask(path, body) {
    const isForm = body instanceof FormData;
    const headers = isForm || !body ? {} : { "Content-Type": "application/json" };
    if (byId("key").value) headers.Authorization = `Bearer ${byId("key").value}`;
    const options = body ? { method: "POST", headers, body: isForm ? body : JSON.stringify(body) } : {};
    const response = await fetch(path, options);
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error || response.statusText);
    return answer;
  }

  postMessage(request) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.translate(request), PAUSE);
  }

  async translate({ id, lines }) {
    const body = { q: lines, source: byId("from").value, target: byId("to").value, details: true };
    let answer = { translatedText: lines, details: lines.map(() => []) };
    try {
      if (lines.some((line) => line.trim())) answer = await this.ask("translate", body);
    } catch (error) {
      return this.onmessage({ data: { id, refused: error.message } });
    }
    answer.translatedText.forEach((text, index) => {
      this.onmessage({ data: { id, index, translation: { text, parts: answer.details[index] } } });
    });
    this.onmessage({ data: { id, done: true } });
  }
}

class ServerPage extends Page {
  receive(data) {
    if (!data.refused) return super.receive(data);
    if (data.id === this.newest) this.refuse(data.refused);
  }

  refuse(reason) {
    byId("status").className = "failed";
    this.say(reason);
  }

  say(text) {
    super.say(text);
    if (!this.input.value.trim() || text.startsWith("Translated")) byId("status").className = "";
  }

  async open() {
    const [languages, settings] = await Promise.all([this.worker.ask("languages"), this.worker.ask("frontend/settings")]);
    this.names = Object.fromEntries(languages.map(({ code, name }) => [code, name]));
    this.targets = Object.fromEntries(languages.map(({ code, targets }) => [code, targets]));
    byId("key-label").hidden = !settings.keyRequired;
    fill(byId("from"), languages.filter(({ targets }) => targets.length).map(({ code }) => code), this.names);
    byId("from").value = settings.language.source.code;
    this.choose();
    byId("from").addEventListener("change", () => this.choose());
    byId("to").addEventListener("change", () => this.request());
    byId("key").addEventListener("change", () => this.request());
    byId("file").addEventListener("change", ({ target }) => target.files[0] && this.send(target.files[0]));
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      if (event.dataTransfer.files[0]) this.send(event.dataTransfer.files[0]);
    });
    this.say("Ready. Type, and the translation follows.");
    if (this.input.value) this.request();
  }

  choose() {
    fill(byId("to"), this.targets[byId("from").value], this.names);
    this.input.lang = document.body.dataset.source = byId("from").value;
    this.output.lang = document.body.dataset.target = byId("to").value;
    if (this.input.value) this.request();
  }

  async send(file) {
    const form = new FormData();
    form.append("file", file);
    form.append("source", byId("from").value);
    form.append("target", byId("to").value);
    this.say(`Translating ${file.name} …`);
    try {
      const { translatedFileUrl } = await this.worker.ask("translate_file", form);
      const link = create("a", `The translation of ${file.name}`);
      link.href = new URL(translatedFileUrl).pathname;
      link.download = "";
      byId("status").className = "";
      byId("status").replaceChildren(link);
    } catch (error) {
      this.refuse(`${file.name}: ${error.message}`);
    }
  }
}

function fill(select, codes, names) {
  const before = select.value;
  select.replaceChildren(...codes.map((code) => Object.assign(create("option", names[code]), { value: code })));
  if (codes.includes(before)) select.value = before;
}

const page = new ServerPage(new Server());
page.open().catch((error) => page.refuse(error.message));
