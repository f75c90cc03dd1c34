// Opens the exported page: what it holds goes to the worker.
function openPage() {
  const textOf = (id) => byId(id).textContent.trim();
  const url = URL.createObjectURL(new Blob([textOf("worker")], { type: "text/javascript" }));
  const page = new Page(new Worker(url));
  page.setLanguages(document.body.dataset.source, document.body.dataset.target);
  for (const element of document.querySelectorAll("[data-language]")) {
    element.textContent = languageName(element.dataset.language, element.textContent);
  }
  const assets = {};
  for (const name of ["runtime", "wasm", "encoder", "decoder", "data"]) {
    assets[name] = textOf(name);
    byId(name).remove();
  }
  page.worker.postMessage({ open: assets });
  if (page.input.value) page.request();
}

if (!window.isTooOld) openPage();
