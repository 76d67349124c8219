// Numbers and reasons as people read them. The words are those of `stringline explain`.

// "33 ms", "601 us", "25 s": at most three decimals.
function timeWords(ns) {
  const size = Math.abs(ns);
  const [unit, name] = size >= 1e10 ? [1e9, 's'] : size >= 1e6 ? [1e6, 'ms']
    : size >= 1e3 ? [1e3, 'us'] : [1, 'ns'];
  return ns === 0 ? '0' : `${Number((ns / unit).toFixed(3))} ${name}`;
}

const shareWords = (share) => `${(100 * share).toFixed(2)} %`;
// " (ranks 8.83 to 38.45 %)", if they are not all idle as long.
const rankShares = ({busiest_bubble: least, idlest_bubble: most}) =>
  shareWords(least) === shareWords(most)
    ? '' : ` (ranks ${(100 * least).toFixed(2)} to ${shareWords(most)})`;

// So many slices as activations of whole microbatches.
const activationsOf = (t, slices) => Number((slices / t.head.slices).toFixed(2));

function amountWords(t, amount) {
  if (!t.head.memory || !t.head.memory.bytes) {
    const whole = activationsOf(t, amount);
    return `${whole} stage activation${whole === 1 ? '' : 's'}`;
  }
  const power = amount < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(amount) / 10));
  const unit = ['B', 'KiB', 'MiB', 'GiB', 'TiB'][power];
  return `${Number((amount / 1024 ** power).toFixed(2))} ${unit}`;
}

// The computations F, B, I, W, R, UPDATE, and those of a schedule's own.
const OWN_NAME = 'of the schedule\'s own';
const COMPUTE_NAMES = ['forward', 'backward', 'input gradient', 'weight gradient', 'forward again',
                       'optimizer\'s step', OWN_NAME, OWN_NAME, OWN_NAME, OWN_NAME, OWN_NAME,
                       OWN_NAME];

// "0F3&1B0": all parts of the computation's group.
function groupName(t, i) {
  if (!isCompute(t, i)) return actionName(t, i);
  const [first, parts] = groupOf(t, i);
  return Array.from({length: parts}, (_, k) => actionName(t, first + k)).join(' & ');
}

// "3", or "11 of the step, 3 of its pipe".
const microbatchWords = (t, i) => (hasPipes(t)
  ? `${microbatchOfStep(t, i)} of the step, ${numberWords(t, i, t.microbatch[i])} of its pipe`
  : numberWords(t, i, t.microbatch[i]));

// "F.attn", or "F.attn.2" in layer 2: of a part's number.
const partName = (t, part) =>
  t.head.parts[t.parts.name[part]][0] + (t.parts.layer[part] ? `.${t.parts.layer[part]}` : '');

const valueWords = (t, giver) => (t.kind[giver] === 0 ? 'activation' : 'gradient');

// Why an idle stretch is idle, as a sentence without its length.
function idleWords(t, s) {
  const cause = t.head.causes[t.idle.cause[s]];
  const waits = t.idle.waiting[s], other = t.idle.for[s];
  const who = waits < 0 ? '' : groupName(t, waits);
  const what = other < 0 ? '' : actionName(t, other);
  const from = other < 0 ? '' : ` from rank ${t.rankOf[other]}`;
  switch (cause) {
    case 'warm-up':
      if (other < 0) return waits < 0 ? 'nothing to do in this step' : `before ${who}, its first`;
      return `before ${who}, its first, which waits for ${what} on rank ${t.rankOf[other]}`;
    case 'cool-down': return 'nothing left to do in this step';
    case 'activation':
    case 'gradient': return `${who} waits for the ${cause} of ${what}${from}`;
    case 'queue': return `what ${who} needs stands behind ${what || 'other messages'} in its queue`;
    case 'memory': return `no receive buffer for what ${who} needs until ${what} has ended`;
    case 'collective': return `${who} waits for the parameters that ${what} gathers`;
    case 'copy': return `${who} waits for the end of ${what}, a copy`;
    default: return `nothing in the plan explains why ${who} starts only then`;
  }
}

// Why an event did not start earlier: a list of sentences.
function whyWords(t, i) {
  if (!isCompute(t, i)) {
    const moves = isSend(t, i) || isRecv(t, i) || isCopy(t, i);
    return [`${moves ? 'moves' : 'runs'} beside computation, on lane ` +
            `${t.head.ranks[t.rankOf[i]].lanes[t.lane[i]][1]}`];
  }
  const [first] = groupOf(t, i);
  const stretches = t.idleBefore.get(first) || [];
  if (stretches.length) {
    return stretches.map((s) =>
      `waited ${timeWords(t.idle.end[s] - t.idle.start[s])}: ${idleWords(t, s)}`);
  }
  const before = computeBefore(t, first);
  if (before === NONE) return ['starts with the step'];
  return [`rank ${t.rankOf[i]} was busy with ${groupName(t, before)} until then`];
}

function computeBefore(t, i) {
  const from = t.head.ranks[t.rankOf[i]].first;
  for (let k = i - 1; k >= from; --k) {
    if (isCompute(t, k) && !t.joined[k]) return k;
  }
  return NONE;
}

function computeAfter(t, i) {
  const rank = t.rankOf[i];
  for (let k = i + 1; k < t.n && t.rankOf[k] === rank; ++k) {
    if (isCompute(t, k) && !t.joined[k]) return k;
  }
  return NONE;
}

// "schedules/1f1b.sched:14:26, iteration 3": the action's place in the source; '' if unknown.
function placeWords(t, i) {
  if (!t.place.length) return '';
  const p = t.place[i];
  const passes = [];
  for (let it = t.iteration[i]; it >= 0; it = t.loopOuter[it]) passes.unshift(t.loopPass[it]);
  const loop = passes.length ? `, iteration ${passes.join('.')}` : '';
  return `${t.head.file}:${t.placeLine[p]}:${t.placeColumn[p]}${loop}`;
}

// The source line in three pieces with the action in the middle; null if unknown.
function placePieces(t, i) {
  if (!t.place.length) return null;
  const p = t.place[i], line = t.lines.get(t.placeLine[p]);
  if (line === undefined) return null;
  const from = t.placeColumn[p] - 1, to = from + t.placeLength[p];
  const tight = (text) => text.replace(/\s{3,}/g, '  ');
  return [tight(line.slice(0, from).trimStart()), line.slice(from, to),
          tight(line.slice(to).trimEnd())];
}

// A time of an axis whose ticks are `step` apart, in the unit of its last tick.
function tickWords(ns, step, last) {
  const [unit, name] = last >= 1e10 ? [1e9, 's'] : last >= 1e6 ? [1e6, 'ms']
    : last >= 1e3 ? [1e3, 'us'] : [1, 'ns'];
  const decimals = Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9));
  return ns === 0 ? '0' : `${(ns / unit).toFixed(Math.min(9, decimals))} ${name}`;
}

// The distance of ticks on an axis: 1, 2 or 5 times a power of ten.
function tickStep(span, most) {
  const rough = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((f) => f * power >= rough) || 10;
  return Math.max(1, factor * power);
}

// The comparison of two steps in words: the second is longer or shorter by so much.
function differenceWords(a, b) {
  const by = b.makespan - a.makespan;
  if (by === 0 || a.makespan === 0) return by === 0 ? 'B takes as long as A' : '';
  const share = Math.abs(by / a.makespan);
  return `B is ${shareWords(share)} ${by < 0 ? 'shorter' : 'longer'} than A: ` +
         `${by < 0 ? '\u2212' : '+'}${timeWords(Math.abs(by))}`;
}
