"use strict";
// A line to its translation with the attention between its words, as nmt/decode/translator.py.
const MAX_SHOWN = 120; // words of a side; the table of a longer line is not drawn
const NO_TEXT = /^<0x[0-9A-F]{2}>$|^<unk>$/; // a piece that is no text

// What is wrong with a line, for who wrote it.
class LineError extends Error {}

class Translator {
  // about: model.json; tables: {source, target} of SentencePiece; model: see search.js
  constructor(about, tables, filter, model) {
    Object.assign(this, { about, filter, model });
    [this.spaces, this.invisible] = tables.normalization.map((pattern) => new RegExp(pattern, "gu"));
    this.tags = new Set(tables.tags);
    this.requiredTags = tables.required_tags;
    this.leadingTag = new RegExp(tables.leading_tag, "uy");
    this.source = new SentencePiece(tables.source);
    this.target = about.joint ? this.source : new SentencePiece(tables.target);
    this.sides = [this.source, this.target].map((side) => tables.placeholders.map((mark) => side.ids.get(mark)));
  }

  normalize(text) {
    const composed = text.replace(this.spaces, " ").replace(this.invisible, "").normalize("NFC");
    return this.about.lowercase ? composed.toLowerCase() : composed;
  }

  // {text, score, parts: [{source, target words, matrices, windows}]}, or null where `pause` has ended it.
  async translate(line, beam, pause) {
    this.checkLanguage(line);
    const plain = { text: line, spans: {}, capitals: false };
    const guarded = this.filter ? this.filter.protect(line) : plain;
    const ids = this.source.encode(this.normalize(guarded.text));
    if (!ids.length) return { text: "", parts: [] };
    if (this.filter && !this.filter.hasWords(guarded.text.slice(this.filter.sentenceStart(guarded.text)))) {
      const sentence = line.slice(this.filter.sentenceStart(line));
      return { text: sentence.split(/\s+/u).filter(Boolean).join(" "), parts: [] };
    }
    const parts = [];
    for (const part of splitLong(ids, this.source.pieces, this.tags, this.about.max_pieces)) {
      const found = await this.searched(part, beam, pause);
      if (!found) return null;
      parts.push(this.shown(part, found, guarded));
    }
    return { text: joinTexts(parts.map((part) => part.text).filter(Boolean)), parts };
  }

  // Throws LineError for a line without the tag of one of several target languages.
  checkLanguage(line) {
    if (!line.trim() || !this.requiredTags.length) return;
    const tags = leadingTags(line, this.leadingTag);
    if (tags.some((tag) => this.requiredTags.includes(tag))) return;
    throw new LineError(`Each line begins with the tag of the language to translate into: ${this.requiredTags.join(" ")}.`);
  }

  async searched(ids, beam, pause) {
    const { decode, special, max_length: longest } = this.about;
    const source = [...ids, special.eos];
    const guard = decode.avoid_loops || this.filter;
    const constraints = guard && Constraints.start(source, ...this.placeholders(), decode.avoid_loops);
    const limit = Math.floor(decode.max_length_ratio * ids.length + decode.max_length_extra) + 1;
    const settings = {
      beam,
      alpha: decode.length_penalty,
      limit: Math.min(limit, longest ?? limit),
      earlyStopping: decode.early_stopping,
      ...special,
    };
    return (await search(this.model, source, settings, constraints, pause))[0];
  }

  placeholders() {
    return this.filter ? this.sides : [[], []];
  }

  decode(ids, guarded) {
    return restore(this.target.decode(ids), guarded).replace(/[\r\n]/g, " ");
  }

  // The text, and what the page shows of its attention.
  shown(ids, { ids: written, steps, score }, guarded) {
    const [ofSource, ofTarget] = this.placeholders();
    const lost = ofSource.flatMap((id, index) => {
      const isLost = ids.includes(id) && !written.includes(ofTarget[index]);
      return isLost ? [guarded.spans[this.source.pieces[id]]] : [];
    });
    const found = this.decode(written, guarded);
    const text = lost.length ? [found, ...lost].join(" ").replace(EDGES, "") : found;
    const piecesOf = (side, row) => row.map((id) => side.pieces[id]);
    const display = (side, row) =>
      splitIntoWords(piecesOf(side, row).map((piece, place, all) => displayed(piece, guarded, all[place - 1] ?? "")));
    const [source, target] = [display(this.source, ids), display(this.target, written)];
    const confidences = wordConfidences(target, steps, this.about.calibration);
    const part = { text, score, confidences, source: [...source.words, END], target: target.words, matrices: [], windows: [] };
    const isShort = Math.max(source.words.length, target.words.length) <= MAX_SHOWN;
    if (!steps[0].weights || !isShort || !target.words.length) return part;
    const { attention } = this.about;
    const rows = steps.slice(attention.decoder_step === "input" ? 1 : 0);
    part.matrices = views(attention).map(({ name, heads }) => {
      const read = rows.map(({ weights }) => meanOfHeads(weights, heads, ids.length + 1));
      return { name, weights: mergeWeights(read, source, target).flat() };
    });
    if (attention.window_reach !== null && rows[0].p_t !== undefined) {
      part.windows = windowSpans(rows.map((row) => row.p_t), attention.window_reach, source, target);
    }
    return part;
  }
}

function displayed(piece, guarded, before) {
  if (NO_TEXT.test(piece)) return piece;
  return restore(piece, guarded, lastCharacter(before)).replaceAll(" ", SPACE);
}

// That of a piece; none for a byte that is a part of one, and for an unknown one.
function lastCharacter(piece) {
  if (!NO_TEXT.test(piece)) return piece.slice(-1);
  const byte = piece.startsWith("<0x") ? parseInt(piece.slice(3, 5), 16) : 0x80;
  return byte < 0x80 ? String.fromCharCode(byte) : "";
}

// Of each word its least probable piece, calibrated, as nmt/evaluate/confidence.py.
function wordConfidences(target, steps, [slope, intercept]) {
  return target.words.map((_, word) => {
    const pieces = target.fractions.flatMap((fractions, piece) => (fractions[word] ? [steps[piece].logProbability] : []));
    const least = Math.min(-1e-12, ...pieces);
    const logit = Math.max(-15, Math.min(15, least - Math.log(-Math.expm1(least))));
    return 1 / (1 + Math.exp(-(slope * logit + intercept)));
  });
}

// What can be chosen: the weights that links are read off, each layer, each head; `heads` counted through all layers.
function views({ layers, heads, layer, head }) {
  const every = Array.from({ length: heads }, (_, index) => index);
  const ofLayer = (number) => every.map((index) => number * heads + index);
  const chosen = [layer].flat().map((number) => (number < 0 ? Math.max(0, number + layers) : Math.min(number, layers - 1)));
  const name = `layer ${chosen.join(", ")}${head === null ? "" : `, head ${head}`}`;
  const first = { name, heads: head === null ? chosen.flatMap(ofLayer) : chosen.map((number) => number * heads + head) };
  const all = [first];
  for (let number = 0; number < layers; number++) {
    all.push({ name: heads > 1 ? `layer ${number}, mean of its heads` : `layer ${number}`, heads: ofLayer(number) });
    if (heads > 1) every.forEach((index) => all.push({ name: `layer ${number}, head ${index}`, heads: [number * heads + index] }));
  }
  all[0] = { ...first, name: `${name} (links are read off it)` };
  return layers * heads === 1 ? all.slice(1) : all;
}

// weights [L·H · S] → [S]
function meanOfHeads(weights, heads, width) {
  return Array.from({ length: width }, (_, column) => {
    return heads.reduce((sum, head) => sum + weights[head * width + column], 0) / heads.length;
  });
}

// Those before a source, in order.
function leadingTags(line, pattern) {
  const tags = [];
  pattern.lastIndex = 0;
  for (let match; (match = pattern.exec(line)); ) tags.push(match[1] ?? match[2]);
  return tags;
}

// Parts of at most `longest` pieces, split after a sentence or between words where possible. Each begins with the tags.
function splitLong(ids, pieces, tags, longest) {
  if (ids.length <= longest) return [ids];
  const names = ids.map((id) => pieces[id]);
  let beginning = countTags(names, tags);
  if (beginning > Math.floor(longest / 2)) beginning = 0; // a line that is mostly tags: they are divided as text
  const prefix = ids.slice(0, beginning);
  const sentence = ids.slice(beginning);
  const texts = names.slice(beginning);
  const room = longest - beginning;
  const parts = [];
  let start = 0;
  while (sentence.length - start > room) {
    const stop = splitPosition(texts, start, start + room);
    parts.push([...prefix, ...sentence.slice(start, stop)]);
    start = stop;
  }
  return [...parts, [...prefix, ...sentence.slice(start)]];
}

// How many pieces at the beginning are tags; a ▁ may be a piece before one.
function countTags(names, tags) {
  let count = 0;
  for (const [place, name] of names.entries()) {
    if (tags.has(name)) count = place + 1;
    else if (name !== SPACE) break;
  }
  return count;
}

function splitPosition(pieces, start, stop) {
  const middle = Math.floor((start + stop) / 2);
  for (let index = stop; index > middle; index--) {
    const last = pieces[index - 1].slice(-1);
    if ("。！？".includes(last) || (pieces[index].startsWith(SPACE) && ".!?;".includes(last))) return index;
  }
  for (let index = stop; index > middle; index--) if (pieces[index].startsWith(SPACE)) return index;
  return stop;
}

function joinTexts(texts) {
  return texts.reduce((line, text) => {
    const isSpaced = line && !SPACELESS.test(line.slice(-1) + text[0]) && !"。！？".includes(line.slice(-1));
    return line + (isSpaced ? ` ${text}` : text);
  }, "");
}
