// Lanes -> pixels. Written straight into an image, so that the cost of a frame depends on the
// screen's size only.

function makeRaster(context, width, height) {
  const image = context.createImageData(width, height);
  return {context, image, width, height, pixels: new Uint32Array(image.data.buffer), labels: []};
}

function fillBox(raster, x0, y0, x1, y1, color) {
  const {pixels, width} = raster;
  for (let y = y0; y < y1; ++y) {
    const end = y * width + x1;
    if (x1 - x0 > 24) {
      pixels.fill(color, y * width + x0, end);
    } else {
      for (let p = y * width + x0; p < end; ++p) pixels[p] = color;
    }
  }
}

// The pattern goes with time: `phase` is where the tile begins, in device pixels.
function fillTile(raster, x0, y0, x1, y1, tile, size, phase) {
  const {pixels, width} = raster;
  for (let y = y0; y < y1; ++y) {
    const row = (y % size) * size;
    let tx = (x0 + phase) % size;
    const end = y * width + x1;
    for (let p = y * width + x0; p < end; ++p) {
      pixels[p] = tile[row + tx];
      if (++tx === size) tx = 0;
    }
  }
}

// Draws a lane. `at`: {t, t0, scale (device pixels per nanosecond), x0, x1, y0, y1, paint, dim
// (everything but the critical path is faint), gap (between actions), labels (the least width with
// a label), labelHeight}.
function drawLane(raster, lane, at) {
  const {t0, scale, x0, x1} = at;
  const timeOf = (x) => t0 + (x - x0) / scale;
  chooseBins(lane, at);
  let x = x0;
  let k = stretchAt(lane, timeOf(x), 0);
  while (x < x1 && k < lane.ref.length) {
    const from = x0 + (lane.start[k] - t0) * scale;
    if (from >= x + 1) {
      x = Math.floor(from);
      continue;
    }
    const to = x0 + (lane.end[k] - t0) * scale;
    if (to - Math.max(from, x) >= 1.5 || (to - from >= 3 && to - x >= 0.5)) {
      const end = Math.min(x1, Math.max(x + 1, Math.round(to)));
      drawStretch(raster, lane, k, Math.max(x, Math.min(end - 1, Math.round(from))), end, at,
                  to <= x1);
      x = end;
      k = stretchAt(lane, timeOf(x), k);
      // Less than half a pixel of the stretch is left: counts as drawn.
      if (k < lane.ref.length && x0 + (lane.end[k] - t0) * scale < x + 0.5) ++k;
    } else {
      drawShares(raster, lane, x, at);
      ++x;
      k = stretchAt(lane, timeOf(x), k);
    }
  }
}

function drawStretch(raster, lane, k, x, end, at, closed) {
  const {t, y0, y1, paint} = at;
  const ref = lane.ref[k];
  if (ref < 0) {
    const cause = t.idle.cause[-1 - ref];
    const tile = (at.dim ? paint.dimTiles : paint.tiles)[cause];
    const size = paint.tileSize;
    const phase = ((Math.round(at.t0 * at.scale) - at.x0) % size + size) % size;
    fillTile(raster, x, y0, end, y1, tile, size, phase);
    return;
  }
  const parts = lane.kind === LANE_COMPUTE && !lane.part ? groupOf(t, ref)[1] : 1;
  const gap = closed && end - x >= 4 ? at.gap : 0;
  for (let p = 0; p < parts; ++p) {
    const top = y0 + Math.round((y1 - y0) * p / parts);
    const bottom = y0 + Math.round((y1 - y0) * (p + 1) / parts);
    const tone = toneOf(t, ref + p);
    const faint = at.dim && !t.onPath[ref + p];
    fillBox(raster, x, top, end - gap, bottom, (faint ? paint.dimFill : paint.fill)[tone]);
    if (at.gap && isMarked(shadeOf(t, ref + p)) && bottom - top >= 12 * at.gap) {
      const bar = Math.max(at.gap, Math.round((bottom - top) * MARK));
      fillBox(raster, x, bottom - bar, end - gap, bottom, (faint ? paint.dimMark : paint.mark)[tone]);
    }
    const edge = (faint ? paint.dimEdge : paint.edge)[tone];
    if (gap) fillBox(raster, end - gap, top, end, bottom, edge);
    if (parts > 1 && p > 0 && bottom - top > 5) {
      fillBox(raster, x, top, end - gap, top + at.gap, edge);
    }
    // Pieces lie in the middle of a group; its names go above and below them.
    const strip = lane.pieces && parts < 3 && hasPieces(t, ref, parts)
      ? Math.round((y1 - y0) * PIECE_INSET) : 0;
    const from = strip && p === 1 ? y1 - strip : top, to = strip && p === 0 ? y0 + strip : bottom;
    if (end - x >= at.labels && to - from >= at.labelHeight) {
      const piece = lane.part ? lane.part[k] : NONE;
      raster.labels.push(x, end - gap, from, to, ref + p, piece, t.index);
    }
  }
}

// True if any of the `count` events from `first` on has pieces.
const hasPieces = (t, first, count) =>
  t.parts.event[lowerBound(t.parts.event, first)] < first + count;

const MARK = 0.09;         // of a box's height: the bar of a marked shade
const PIECE_INSET = 0.3;  // of a lane's height, above and below the pieces of a group

const shadeOf = (t, i) => t.head.shades[t.stage[i]];
function toneOf(t, i) {
  const slices = isSlice(t, i) ? t.head.slices : 1;
  return toneAt(t.kind[i], shadeOf(t, i), Math.floor(t.microbatch[i] / slices),
                t.microbatch[i] % slices);
}

// Bins at most as wide as a pixel.
function chooseBins(lane, at) {
  const {width, levels} = lane.bins;
  const wanted = Math.floor(Math.log2(1 / at.scale / width));
  const l = Math.max(0, Math.min(levels.length - 1, wanted));
  at.level = levels[l];
  at.wide = width * 2 ** l;
}

// A column of pixels with many events: their shares, stacked.
function drawShares(raster, lane, x, at) {
  const {y0, y1, paint} = at;
  const {level, wide} = at;
  const time = at.t0 + (x - at.x0) / at.scale;
  const last = Math.min(level.length / SHARES - 1, Math.floor((time + 1 / at.scale) / wide));
  const first = Math.max(0, Math.min(last, Math.floor(time / wide)));
  const fills = at.dim ? paint.dimFill : paint.fill;
  if (lane.kind !== LANE_COMPUTE || y1 - y0 < 4) {
    drawMixed(raster, lane, level, first, last, x, at);
    return;
  }
  const scale = (y1 - y0) / (255 * (last - first + 1));
  let sum = 0, top = y0, cause = 0;
  for (let b = first; b <= last; ++b) cause = level[b * SHARES + CAUSE] || cause;
  for (let kind = 0; kind < COMPUTE_KINDS; ++kind) {
    for (let b = first; b <= last; ++b) sum += level[b * SHARES + kind];
    const bottom = Math.min(y1, y0 + Math.round(sum * scale));
    if (bottom > top) fillBox(raster, x, top, x + 1, bottom, fills[toneAt(kind, 0, 0)]);
    top = bottom;
  }
  if (top < y1 && cause) {
    const tile = (at.dim ? paint.dimTiles : paint.tiles)[cause - 1];
    const size = paint.tileSize;
    const phase = ((Math.round(at.t0 * at.scale) - at.x0) % size + size) % size;
    fillTile(raster, x, top, x + 1, y1, tile, size, phase);
  }
}

// The same as a single colour, where several do not fit.
function drawMixed(raster, lane, level, first, last, x, at) {
  const {paint} = at;
  const compute = lane.kind === LANE_COMPUTE;
  const bins = last - first + 1;
  const sums = new Array(COMPUTE_KINDS).fill(0);
  let cause = 0;
  for (let b = first * SHARES; b <= last * SHARES; b += SHARES) {
    for (let kind = 0; kind < COMPUTE_KINDS; ++kind) sums[kind] += level[b + kind];
    cause = level[b + CAUSE] || cause;
  }
  const busy = sums.reduce((all, sum) => all + sum, 0);
  if (busy === 0 && !cause) return;
  const ground = compute && cause ? paint.causeRgb[cause - 1] : paint.theme.band;
  const weight = compute ? Math.min(1, busy / (255 * bins)) : Math.max(0.5, busy / (255 * bins));
  const ink = [0, 0, 0];
  sums.forEach((sum, share) => {
    if (!sum) return;
    const tone = paint.rgb[toneAt(kindOfShare(lane, share), 0, 0)];
    for (let c = 0; c < 3; ++c) ink[c] += tone[c] * sum / Math.max(1, busy);
  });
  const color = mix(ground, ink, at.dim ? weight * 0.35 : weight);
  fillBox(raster, x, at.y0, x + 1, at.y1, pixel(color));
}

// The memory of a rank as a curve: `most` is the amount at the top.
function drawMemory(raster, curve, at, most) {
  const {t0, scale, x0, x1, y0, y1, paint} = at;
  let k = Math.max(0, lowerBound(curve.time, t0) - 1);
  const area = pixel(mix(paint.theme.lane, paint.theme.soft, 0.32));
  for (let x = x0, before = -1; x < x1; ++x) {
    const until = t0 + (x + 1 - x0) / scale;
    let amount = curve.time.length && curve.time[k] < until ? curve.amount[k] : 0;
    while (k + 1 < curve.time.length && curve.time[k + 1] < until) {
      amount = Math.max(amount, curve.amount[++k]);
    }
    if (t0 + (x - x0) / scale > at.t.makespan) break;
    const top = y1 - Math.round((y1 - y0) * amount / most);
    fillBox(raster, x, top, x + 1, y1, area);
    const edge = before < 0 ? top : before;
    fillBox(raster, x, Math.min(top, edge), x + 1,
            Math.min(y1, Math.max(top, edge, Math.min(top, edge) + at.gap)), paint.soft);
    before = top;
  }
}
