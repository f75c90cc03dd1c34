"use strict";
// Text to pieces and back as SentencePiece does it, without its normalisation (models here are trained with "identity").
// table: {pieces, scores, types, bpe}; type 1 is a normal piece, 2 unknown, 3 control, 4 user-defined, 6 a byte.
const SPACE = "\u2581";
const [NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE] = [1, 2, 3, 4, 6];
const UNKNOWN_PENALTY = 10;
const utf8 = new TextEncoder();

class SentencePiece {
  constructor(table) {
    Object.assign(this, table);
    this.ids = new Map();
    this.bytes = [];
    this.longest = 0; // in UTF-16 units
    this.unknown = this.types.indexOf(UNKNOWN);
    const scores = this.scores.filter((_, id) => this.types[id] === NORMAL);
    this.lowest = scores.reduce((least, score) => Math.min(least, score), Infinity);
    this.highest = scores.reduce((most, score) => Math.max(most, score), -Infinity);
    this.userDefined = [];
    this.pieces.forEach((piece, id) => {
      const type = this.types[id];
      if (type === BYTE) this.bytes[parseInt(piece.slice(3, 5), 16)] = id;
      if (type !== NORMAL && type !== USER_DEFINED) return;
      if (type === USER_DEFINED) this.userDefined.push(piece);
      this.ids.set(piece, id);
      this.longest = Math.max(this.longest, piece.length);
    });
    this.userDefined.sort((left, right) => right.length - left.length);
  }

  encode(text) {
    const clean = text.isWellFormed && !text.isWellFormed() ? text.toWellFormed() : text;
    const marked = SPACE + clean.replace(/^ +| +$/g, "").replace(/ +/g, SPACE).replace(/\u2581+$/, "");
    if (marked === SPACE) return [];
    return this.toIds(this.bpe ? this.merged(marked) : this.bestPath(marked));
  }

  // Pieces in the order of the text to ids: bytes for what is unknown, or one <unk> for a run of it.
  toIds(parts) {
    const ids = [];
    let wasUnknown = false;
    for (const part of parts) {
      const id = this.ids.get(part);
      if (id !== undefined) ids.push(id);
      else if (this.bytes.length) ids.push(...[...utf8.encode(part)].map((byte) => this.bytes[byte]));
      else if (!wasUnknown) ids.push(this.unknown);
      wasUnknown = id === undefined;
    }
    return ids;
  }

  // Unigram: the most probable pieces (Viterbi).
  bestPath(text) {
    const unknown = Math.fround(this.lowest - UNKNOWN_PENALTY);
    const best = new Float32Array(text.length + 1);
    const from = new Int32Array(text.length + 1).fill(-1);
    const propose = (start, end, score) => {
      const sum = best[start] + score; // compared in float64, kept in float32
      if (from[end] < 0 || sum > best[end]) [best[end], from[end]] = [sum, start];
    };
    for (let start = 0; start < text.length; ) {
      const width = text.codePointAt(start) > 0xffff ? 2 : 1;
      let hasCharacter = false;
      for (let end = start + width; end <= Math.min(text.length, start + this.longest); end++) {
        const piece = text.slice(start, end);
        const id = this.ids.get(piece);
        if (id === undefined) continue;
        const isOwn = this.types[id] === USER_DEFINED;
        propose(start, end, isOwn ? utf8.encode(piece).length * this.highest - 0.1 : this.scores[id]);
        hasCharacter ||= end === start + width;
      }
      if (!hasCharacter) propose(start, start + width, Math.fround(best[start] + unknown) - best[start]);
      start += width;
    }
    const parts = [];
    for (let end = text.length; end > 0; end = from[end]) parts.push(text.slice(from[end], end));
    return parts.reverse();
  }

  // BPE: the pair with the best score is merged, the first of equals, until none is a piece. No piece has ▁ inside.
  merged(text) {
    return text.split(/(?=\u2581)/).flatMap((word) => this.mergedWord(this.symbols(word)));
  }

  symbols(word) {
    const found = [];
    for (let start = 0; start < word.length; ) {
      const own = this.userDefined.find((piece) => word.startsWith(piece, start));
      const text = own || String.fromCodePoint(word.codePointAt(start));
      found.push({ text, frozen: Boolean(own) });
      start += text.length;
    }
    return found;
  }

  // Symbols keep their places; the right one of a merged pair is left empty.
  mergedWord(symbols) {
    const pairs = new PairHeap();
    const before = symbols.map((_, index) => index - 1);
    const after = symbols.map((_, index) => index + 1);
    const propose = (left, right) => {
      if (left < 0 || right >= symbols.length || symbols[left].frozen || symbols[right].frozen) return;
      const text = symbols[left].text + symbols[right].text;
      const id = this.ids.get(text);
      if (id !== undefined) pairs.push({ left, right, text, score: this.scores[id] });
    };
    for (let index = 0; index + 1 < symbols.length; index++) propose(index, index + 1);
    for (let pair; (pair = pairs.pop()); ) {
      const { left, right, text } = pair;
      const isOld = !symbols[right].text || symbols[left].text + symbols[right].text !== text;
      if (isOld) continue; // one of them was merged with another
      symbols[left].text = text;
      symbols[right].text = "";
      after[left] = after[right];
      before[after[right]] = left;
      propose(before[left], left);
      propose(left, after[left]);
    }
    return symbols.map((symbol) => symbol.text).filter(Boolean);
  }

  decode(ids) {
    let text = "";
    let bytes = [];
    const flush = () => {
      text += decodeUtf8(bytes).map(([character]) => character).join("");
      bytes = [];
    };
    for (const id of ids) {
      const type = this.types[id];
      if (type === BYTE) bytes.push(parseInt(this.pieces[id].slice(3, 5), 16));
      else {
        flush();
        if (type === UNKNOWN) text += " \u2047 ";
        else if (type !== CONTROL) {
          const piece = this.pieces[id];
          text += (text ? piece : piece.replace(SPACE, "")).replaceAll(SPACE, " ");
        }
      }
    }
    flush();
    return text;
  }
}

// Pairs of symbols; the one with the highest score comes first, of equals the first in the text.
class PairHeap {
  constructor() {
    this.pairs = [];
  }

  isBefore(one, other) {
    const [left, right] = [this.pairs[one], this.pairs[other]];
    return left.score > right.score || (left.score === right.score && left.left < right.left);
  }

  swap(one, other) {
    [this.pairs[one], this.pairs[other]] = [this.pairs[other], this.pairs[one]];
  }

  push(pair) {
    this.pairs.push(pair);
    let place = this.pairs.length - 1;
    for (let parent; place > 0 && this.isBefore(place, (parent = (place - 1) >> 1)); place = parent) this.swap(place, parent);
  }

  pop() {
    if (this.pairs.length < 2) return this.pairs.pop();
    this.swap(0, this.pairs.length - 1);
    const first = this.pairs.pop();
    for (let place = 0; ; ) {
      let best = place;
      for (const child of [2 * place + 1, 2 * place + 2]) {
        if (child < this.pairs.length && this.isBefore(child, best)) best = child;
      }
      if (best === place) return first;
      this.swap(place, best);
      place = best;
    }
  }
}

// [[character, bytes], …]; an invalid byte is a U+FFFD.
function decodeUtf8(bytes) {
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const found = [];
  for (let start = 0; start < bytes.length; ) {
    let [character, width] = ["\ufffd", 1];
    for (let tried = 1; tried <= 4 && start + tried <= bytes.length; tried++) {
      try {
        [character, width] = [strict.decode(new Uint8Array(bytes.slice(start, start + tried))), tried];
        break;
      } catch {} // not yet a character
    }
    found.push([character, width]);
    start += width;
  }
  return found;
}
