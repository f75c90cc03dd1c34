"use strict";
// The two ONNX graphs as the model of search.js; one sentence at a time.

class OnnxModel {
  constructor(ort, encoder, decoder) {
    Object.assign(this, { ort, encoder, decoder });
  }

  // settings: what onnxruntime-web's InferenceSession.create takes
  static async open(ort, encoder, decoder, settings) {
    const create = (bytes) => ort.InferenceSession.create(bytes, settings);
    return new OnnxModel(ort, await create(encoder), await create(decoder));
  }

  integers(ids, dims) {
    return new this.ort.Tensor("int64", BigInt64Array.from(ids, BigInt), dims);
  }

  async encode(source) {
    const outputs = await this.encoder.run({ source: this.integers(source, [1, source.length]) });
    return { memory: selected(outputs, "memory."), state: selected(outputs, "state.") };
  }

  async decode(tokens, memory, state) {
    const known = { ids: this.integers(tokens, [tokens.length, 1]), ...memory, ...state };
    const feeds = Object.fromEntries(this.decoder.inputNames.map((name) => [name, known[name]]));
    const outputs = await this.decoder.run(feeds);
    const after = Object.entries(selected(outputs, "next."));
    return {
      logits: outputs.logits.data,
      weights: outputs.weights?.data,
      p_t: outputs.p_t?.data,
      state: Object.fromEntries(after.map(([name, tensor]) => [name.replace("next.", "state."), tensor])),
    };
  }

  // The state of these rows.
  reorder(state, rows) {
    return Object.fromEntries(Object.entries(state).map(([name, tensor]) => {
      const size = tensor.data.length / tensor.dims[0];
      if (rows.length === tensor.dims[0] && rows.every((row, index) => row === index)) return [name, tensor];
      const data = new tensor.data.constructor(rows.length * size);
      rows.forEach((row, index) => data.set(tensor.data.subarray(row * size, (row + 1) * size), index * size));
      return [name, new this.ort.Tensor(tensor.type, data, [rows.length, ...tensor.dims.slice(1)])];
    }));
  }
}

function selected(tensors, prefix) {
  return Object.fromEntries(Object.entries(tensors).filter(([name]) => name.startsWith(prefix)));
}
