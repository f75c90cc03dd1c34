"use strict";
// What a hypothesis may not contain, as nmt/decode/constraints.py: loops, and placeholders missing or written twice.
const WINDOW = 32; // pieces in the longest span whose repetition is noticed
const MIDDLE = 3; // pieces of a span that is stopped a piece earlier
const LONG = 8; // pieces of a span that is not repeated at all

// How many pieces in a row may equal the piece 1, 2, … before them.
function longestAllowedRuns(repeats) {
  return Array.from({ length: WINDOW }, (_, index) => {
    const period = index + 1;
    const allowed = period < LONG ? Math.max(2, repeats) : repeats;
    return allowed * period - (period >= MIDDLE && period < LONG ? 2 : 1);
  });
}

class Constraints {
  constructor(targets, missing, runs, history, most) {
    Object.assign(this, { targets, missing, runs, history, most });
  }

  // Those of <s>, for a source with its </s>.
  static start(source, sourcePlaceholders, placeholders, avoidLoops) {
    const missing = sourcePlaceholders.map((id) => source.includes(id));
    const most = avoidLoops ? longestAllowedRuns(sourceRepeats(source)) : new Array(WINDOW).fill(Infinity);
    return new Constraints(placeholders, missing, new Array(WINDOW).fill(0), [], most);
  }

  // Change the log-probabilities of the next piece in place.
  apply(logProbabilities, pad, end) {
    const { history } = this;
    for (let back = 1; back <= Math.min(WINDOW, history.length); back++) {
      if (this.runs[back - 1] >= this.most[back - 1]) logProbabilities[history[history.length - back]] = -Infinity;
    }
    const first = this.missing.indexOf(true);
    if (first >= 0) {
      const id = this.targets[first];
      logProbabilities[id] = Math.max(logProbabilities[id], logProbabilities[end]);
      logProbabilities[end] = -Infinity;
    }
    this.targets.forEach((id, index) => {
      if (!this.missing[index]) logProbabilities[id] = -Infinity;
    });
  }

  // Those after one piece more.
  extend(token) {
    const { history } = this;
    const runs = this.runs.map((run, index) => {
      const isSame = index < history.length && history[history.length - 1 - index] === token;
      return isSame ? run + 1 : 0;
    });
    const missing = this.missing.map((isMissing, index) => isMissing && this.targets[index] !== token);
    return new Constraints(this.targets, missing, runs, [...history.slice(-WINDOW), token], this.most);
  }
}

// The most times that a span of the source stands in a row, a repetition that is cut short included.
function sourceRepeats(source) {
  let most = 1;
  for (let period = 1; period <= Math.min(WINDOW, source.length - 1); period++) {
    let [longest, run] = [0, 0];
    for (let index = 0; index + period < source.length; index++) {
      run = source[index] === source[index + period] ? run + 1 : 0;
      longest = Math.max(longest, run);
    }
    if (longest > 1 || longest === period) most = Math.max(most, 1 + Math.floor((longest + period - 1) / period));
  }
  return most;
}
