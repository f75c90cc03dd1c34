"use strict";
// Beam search as nmt/decode/beam_search.py; beam 1 is greedy search. `model` has encode(source) → {memory, state} and
// decode(tokens, memory, state) → {logits, weights, p_t, state}, with a row for each hypothesis.

// settings: {beam, alpha, limit, earlyStopping, pad, bos, eos}; `pause` is awaited after each column, true ends the search.
// The result: hypotheses {ids, score, steps}, best first; steps: {weights, p_t, logProbability} of each column, that of </s> included.
async function search(model, source, settings, constraints, pause) {
  const { beam, alpha, limit, earlyStopping, eos, bos } = settings;
  const encoded = await model.encode(source);
  let finished = [];
  let state = encoded.state;
  let open = [{ token: bos, score: 0, parent: null, constraints }];
  for (let length = 1; open.length; length++) {
    const decoded = await model.decode(open.map((each) => each.token), encoded.memory, state);
    const rows = open.map((each, row) => scoredRow(decoded, row, open.length, each, settings));
    const best = length < limit ? bestCandidates(open, rows, 2 * beam) : forcedEnds(open, rows, eos);
    const ended = best.slice(0, beam).filter((candidate) => candidate.token === eos);
    finished.push(...ended.map((candidate) => toHypothesis(candidate, length, alpha)));
    if (!earlyStopping) finished.sort((left, right) => right.score - left.score);
    finished = finished.slice(0, beam);
    const next = best.filter((candidate) => candidate.token !== eos).slice(0, beam);
    if (!next.length) break;
    const worst = finished[beam - 1]?.score ?? -Infinity;
    const isClosed = earlyStopping ? worst > -Infinity : worst >= next[0].score / length ** alpha;
    if (isClosed || length >= limit || (await pause())) break;
    state = model.reorder(decoded.state, next.map((candidate) => candidate.row));
    open = next.map((each) => ({ ...each, constraints: each.parent.constraints?.extend(each.token) }));
  }
  return finished.sort((left, right) => right.score - left.score);
}

// The log-probabilities of one hypothesis' next piece, that of </s> at the limit, and what is shown of the column.
function scoredRow(decoded, row, count, hypothesis, { pad, bos, eos }) {
  const part = (tensor) => tensor && tensor.slice((row * tensor.length) / count, ((row + 1) * tensor.length) / count);
  const logits = part(decoded.logits);
  logits[bos] = -Infinity; // has no part in the softmax
  const logProbabilities = logSoftmax(logits);
  logProbabilities[pad] = -Infinity;
  const end = logProbabilities[eos];
  hypothesis.constraints?.apply(logProbabilities, pad, eos);
  return { logProbabilities, end, step: { weights: part(decoded.weights), p_t: part(decoded.p_t)?.[0] } };
}

function logSoftmax(logits) {
  let largest = -Infinity;
  for (const logit of logits) if (logit > largest) largest = logit;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - largest);
  const total = largest + Math.log(sum);
  return logits.map((logit) => logit - total);
}

// The `count` best extensions of all hypotheses, best first.
function bestCandidates(open, rows, count) {
  const best = [];
  open.forEach((parent, row) => {
    const { logProbabilities, step } = rows[row];
    for (let token = 0; token < logProbabilities.length; token++) {
      const score = Math.fround(parent.score + logProbabilities[token]);
      if (score === -Infinity || (best.length === count && score <= best[count - 1].score)) continue;
      let place = best.length;
      while (place > 0 && best[place - 1].score < score) place--;
      best.splice(place, 0, { token, score, parent, row, step: { ...step, logProbability: score - parent.score } });
      if (best.length > count) best.pop();
    }
  });
  return best;
}

// Every hypothesis ended.
function forcedEnds(open, rows, eos) {
  const ended = open.map((parent, row) => {
    const { end, step } = rows[row];
    const score = Math.fround(parent.score + end);
    return { token: eos, score, parent, row, step: { ...step, logProbability: end } };
  });
  return ended.sort((left, right) => right.score - left.score);
}

function toHypothesis(last, length, alpha) {
  const [ids, steps] = [[], [last.step]];
  for (let each = last.parent; each.parent; each = each.parent) {
    ids.unshift(each.token);
    steps.unshift(each.step);
  }
  return { ids, steps, score: last.score / length ** alpha };
}
