"use strict";
// The worker: opens the model once, then translates line by line; a newer request ends the one before.
// in: {open: assets} once, then {id, lines, beam}; out: {ready}, {id, index, translation}, {id, done}, {error}
let opened = null;
let newest = 0;

self.onmessage = async ({ data }) => {
  try {
    if (data.open) {
      opened = openTranslator(data.open);
      await opened;
      self.postMessage({ ready: true });
    } else {
      newest = data.id;
      await translateLines(await opened, data);
    }
  } catch (error) {
    const reason = error?.message || error;
    self.postMessage({ id: data.id, error: error instanceof LineError ? reason : `The translator stopped: ${reason}` });
  }
};

// Messages are received while this waits; true where a newer request has come.
function pauseFor(id) {
  let last = performance.now();
  return async () => {
    if (performance.now() - last > 30) {
      await new Promise((resolve) => setTimeout(resolve));
      last = performance.now();
    }
    return newest !== id;
  };
}

async function translateLines(translator, { id, lines, beam }) {
  const pause = pauseFor(id);
  for (const [index, line] of lines.entries()) {
    const translation = await translator.translate(line, beam, pause);
    if (!translation || newest !== id) return;
    self.postMessage({ id, index, translation });
  }
  self.postMessage({ id, done: true });
}

async function openTranslator(assets) {
  const names = ["runtime", "wasm", "encoder", "decoder", "data"];
  const bytes = await Promise.all(names.map((name) => unpacked(assets[name])));
  const [runtime, wasm, encoder, decoder, data] = bytes;
  const url = URL.createObjectURL(new Blob([runtime], { type: "text/javascript" }));
  const ort = await import(url);
  ort.env.wasm.numThreads = 1; // a page from a disk has no shared memory
  ort.env.wasm.wasmBinary = wasm;
  ort.env.logLevel = "error";
  const settings = { executionProviders: ["wasm"], graphOptimizationLevel: "all" };
  const { about, tables, filter } = JSON.parse(new TextDecoder().decode(data));
  const model = await OnnxModel.open(ort, encoder, decoder, settings);
  return new Translator(about, tables, filter && new TextFilter(filter.rules, filter.tags), model);
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index++) bytes[index] = binary.charCodeAt(index);
  return bytes;
}

async function unpacked(text) {
  const stream = new Blob([fromBase64(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
