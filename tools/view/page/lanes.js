// Lanes: the contents of a line of the picture, as stretches that do not overlap, and shares of
// these in bins of ever coarser time, so that a pixel costs the same for any number of events.

const LANE_COMPUTE = 0, LANE_MESSAGES = 1, LANE_ALL_TO_ALL = 2, LANE_COLLECTIVES = 3,
      LANE_COPIES = 4;
// Bytes of a bin: shares of the computations, of 255, and at CAUSE 1 + the main cause of its idle.
const CAUSE = COMPUTE_KINDS, SHARES = CAUSE + 1;

// {kind, name, start, end, ref}: ref is an event's number, or -1 - that of an idle stretch.
function makeLane(kind, name, start, end, ref) {
  const order = Int32Array.from(ref, (_, k) => k);
  if (start.some((time, k) => k > 0 && time < start[k - 1])) {
    order.sort((a, b) => start[a] - start[b] || a - b);
  }
  const lane = {kind, name, start: new Float64Array(order.length),
                end: new Float64Array(order.length), ref: new Int32Array(order.length)};
  let now = 0;
  for (let k = 0; k < order.length; ++k) {
    lane.start[k] = Math.max(now, start[order[k]]);
    now = lane.end[k] = Math.max(lane.start[k], end[order[k]]);
    lane.ref[k] = ref[order[k]];
  }
  return lane;
}

function rangeOf(t, rank) {
  return [t.head.ranks[rank].first, rank + 1 < t.ranks ? t.head.ranks[rank + 1].first : t.n];
}

// The computations of a rank and the idle stretches between them: both are in order of time.
function makeComputeLane(t, rank) {
  const [from, to] = rangeOf(t, rank);
  let count = t.idle.first[rank + 1] - t.idle.first[rank];
  for (let i = from; i < to; ++i) count += isCompute(t, i) && !t.joined[i] ? 1 : 0;
  const lane = {kind: LANE_COMPUTE, name: 'compute', start: new Float64Array(count),
                end: new Float64Array(count), ref: new Int32Array(count)};
  let k = 0, now = 0, idle = t.idle.first[rank];
  const add = (start, end, ref) => {
    lane.start[k] = Math.max(start, now);
    now = lane.end[k] = Math.max(end, lane.start[k]);
    lane.ref[k++] = ref;
  };
  const addIdle = (until) => {
    for (; idle < t.idle.first[rank + 1] && t.idle.start[idle] < until; ++idle) {
      add(t.idle.start[idle], t.idle.end[idle], -1 - idle);
    }
  };
  for (let i = from; i < to; ++i) {
    if (!isCompute(t, i) || t.joined[i]) continue;
    addIdle(t.start[i]);
    add(t.start[i], t.end[i], i);
  }
  addIdle(Infinity);
  return lane;
}

// Messages, collectives or copies of a rank: those of its lane `l`.
function makeEventLane(t, rank, l) {
  const [from, to] = rangeOf(t, rank);
  let count = 0;
  for (let i = from; i < to; ++i) count += t.lane[i] === l ? 1 : 0;
  const start = new Float64Array(count), end = new Float64Array(count), ref = new Int32Array(count);
  for (let i = from, k = 0; i < to; ++i) {
    if (t.lane[i] !== l) continue;
    start[k] = t.start[i];
    end[k] = t.end[i];
    ref[k++] = i;
  }
  const [kind, name] = t.head.ranks[rank].lanes[l];
  return makeLane(kind, name, start, end, ref);
}

// The pieces of the rank's groups on the network, or on the compute lane. `part` is the index of a
// piece, ref the event of the piece.
function makePartLane(t, rank, onNetwork) {
  const [from, to] = rangeOf(t, rank);
  const found = [];
  for (let p = lowerBound(t.parts.event, from); p < t.parts.event.length; ++p) {
    if (t.parts.event[p] >= to) break;
    if (t.head.parts[t.parts.name[p]][1] === onNetwork) found.push(p);
  }
  const kind = onNetwork ? LANE_ALL_TO_ALL : LANE_COMPUTE;
  const start = found.map((p) => t.parts.start[p]), end = found.map((p) => t.parts.end[p]);
  const lane = makeLane(kind, 'network', start, end, found);
  lane.part = lane.ref;  // the index of the piece
  lane.ref = lane.part.map((p) => t.parts.event[p]);
  return lane;
}

// Lane `l` of a rank, made at its first use.
function laneOf(t, rank, l) {
  t.lanes = t.lanes || Array.from({length: t.ranks}, () => []);
  const lanes = t.lanes[rank];
  if (lanes[l]) return lanes[l];
  const kind = t.head.ranks[rank].lanes[l][0];
  if (kind === LANE_COMPUTE) {
    lanes[l] = makeComputeLane(t, rank);
    if (t.parts.event.length) lanes[l].pieces = makePartLane(t, rank, false);
  } else {
    lanes[l] = kind === LANE_ALL_TO_ALL ? makePartLane(t, rank, true) : makeEventLane(t, rank, l);
  }
  makeBins(t, lanes[l]);
  return lanes[l];
}

// The first index whose value is at least `value`.
function lowerBound(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}

// The first stretch at or after `k` that ends after `time`: a galloping search, as the next is
// mostly near.
function stretchAt(lane, time, k) {
  let step = 1;
  while (k + step < lane.end.length && lane.end[k + step] <= time) {
    k += step;
    step *= 2;
  }
  let low = k, high = Math.min(k + step, lane.end.length);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.end[middle] <= time) low = middle + 1; else high = middle;
  }
  return low;
}

// The share to which an event outside the compute lane belongs: of messages and collectives, those
// of gradients to the share of B, and the others to that of F; of copies, U to B's and D to F's.
function shareOf(t, lane, i) {
  if (lane.kind === LANE_ALL_TO_ALL) return t.kind[i];
  if (isCopy(t, i)) return t.kind[i] >= FETCH ? 1 : 0;
  return [SEND_B, RECV_B, REDUCE_GRAD].includes(t.kind[i]) ? 1 : 0;
}

// The kind of action in whose tone a share of a lane is drawn.
function kindOfShare(lane, share) {
  if (lane.kind === LANE_COLLECTIVES) return UNSHARD;
  return lane.kind === LANE_COPIES ? [OFFLOAD, FETCH][share] : share;
}

// Levels of bins over [0, makespan): levels[0] has the narrowest, each next level twice as wide.
function makeBins(t, lane) {
  const bins = Math.max(2, 2 ** Math.ceil(Math.log2(Math.max(2, lane.ref.length))));
  const width = Math.max(t.makespan, 1) / bins;
  const time = new Float64Array(bins * SHARES);
  const longest = new Float64Array(bins);
  for (let k = 0; k < lane.ref.length; ++k) {
    const ref = lane.ref[k];
    const parts = ref >= 0 && lane.kind === LANE_COMPUTE ? groupOf(t, ref)[1] : 1;
    const last = Math.min(bins - 1, Math.floor(lane.end[k] / width));
    for (let b = Math.floor(lane.start[k] / width); b <= last; ++b) {
      const inside = Math.min(lane.end[k], (b + 1) * width) - Math.max(lane.start[k], b * width);
      if (inside <= 0) continue;
      if (ref < 0) {
        if (inside > longest[b]) {
          longest[b] = inside;
          time[b * SHARES + CAUSE] = 1 + t.idle.cause[-1 - ref];
        }
      } else if (lane.kind === LANE_COMPUTE) {
        for (let p = 0; p < parts; ++p) time[b * SHARES + t.kind[ref + p]] += inside / parts;
      } else {
        time[b * SHARES + shareOf(t, lane, ref)] += inside;
      }
    }
  }
  const level = new Uint8Array(bins * SHARES);
  // Outside the compute lane even the shortest event must be seen.
  const least = lane.kind === LANE_COMPUTE ? 0 : 1;
  for (let b = 0; b < bins * SHARES; b += SHARES) {
    for (let s = 0; s < COMPUTE_KINDS; ++s) {
      const share = Math.round(255 * Math.min(1, time[b + s] / width));
      level[b + s] = time[b + s] > 0 ? Math.max(least, share) : 0;
    }
    level[b + CAUSE] = time[b + CAUSE];
  }
  lane.bins = {width, levels: [level]};
  for (let finer = level; finer.length > SHARES; finer = lane.bins.levels.at(-1)) {
    lane.bins.levels.push(coarser(finer, least));
  }
}

// `up` is 1 to round half of a share up, so that a share never gets lost.
function coarser(finer, up) {
  const level = new Uint8Array(finer.length / 2);
  for (let b = 0; b < level.length; b += SHARES) {
    let left = 0, right = 0;
    for (let s = 0; s < COMPUTE_KINDS; ++s) {
      left += finer[2 * b + s];
      right += finer[2 * b + SHARES + s];
      level[b + s] = (finer[2 * b + s] + finer[2 * b + SHARES + s] + up) >> 1;
    }
    const [one, other] = [finer[2 * b + CAUSE], finer[2 * b + SHARES + CAUSE]];
    level[b + CAUSE] = one && (left <= right || !other) ? one : other;
  }
  return level;
}
