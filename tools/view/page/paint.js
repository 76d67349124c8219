// Colours. Hues are the terminal's: F blue, B amber, I rose, W green, R violet, each also of its
// own lightness. Stages of a rank differ by four shades: darker, with a bar, or both
// (stage_shades.h). Causes of idle time differ by hatching.

// OKLCH -> [r, g, b] of 0 .. 255. Lightness 0 .. 1, hue in degrees.
function fromOklch(lightness, chroma, hue) {
  const a = chroma * Math.cos(hue * Math.PI / 180), b = chroma * Math.sin(hue * Math.PI / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3;
  const linear = [4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
                  -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
                  -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s];
  return linear.map((c) => {
    const clamped = Math.min(1, Math.max(0, c));
    const gamma = clamped <= 0.0031308 ? 12.92 * clamped : 1.055 * clamped ** (1 / 2.4) - 0.055;
    return Math.round(255 * gamma);
  });
}

// Relative luminance, 0 .. 1, as contrast is measured with.
function lightOf(rgb) {
  const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92
    : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

const mix = (one, other, share) => one.map((c, i) => Math.round(c + (other[i] - c) * share));
const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;
const pixel = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;

// Lightness, chroma, hue of the computations F, B, I, W, R and UPDATE; and of the other lanes. Chosen so
// that readers without a kind of cone tell them apart, a property held by
// tests/page/browser_test.py. A schedule's own computations bear their names.
const OWN_TONES = [[0.68, 0.12, 185], [0.7, 0.16, 50], [0.76, 0.13, 345], [0.58, 0.05, 265],
                   [0.84, 0.16, 125], [0.5, 0.08, 60]];
const KIND_TONES = [[0.735, 0.115, 240], [0.86, 0.135, 84], [0.65, 0.155, 10], [0.41, 0.1, 150],
                    [0.53, 0.17, 297], [0.32, 0.12, 330], ...OWN_TONES];
const DARKER = -0.08;  // lightness added by an odd shade
const LIGHTER = 0.03;  // lightness added by an odd slice
const toneAt = (kind, shade, microbatch, slice = 0) =>
  kind * 8 + (slice & 1) * 4 + (shade & 1) * 2 + (microbatch & 1);
const isMarked = (shade) => (shade & 2) !== 0;
const COLLECTIVE_TONE = [0.62, 0.09, 195];
const COPY_TONES = [[0.86, 0.1, 112], [0.59, 0.115, 118]];  // D and U
// By kind of action: messages in the tones of F and B, then copies and three collectives.
const [FORWARD_TONE, BACKWARD_TONE] = KIND_TONES;
const ACTION_TONES = [...KIND_TONES, FORWARD_TONE, FORWARD_TONE, BACKWARD_TONE, BACKWARD_TONE,
                      ...new Array(4).fill(COPY_TONES[0]), ...new Array(4).fill(COPY_TONES[1]),
                      ...new Array(9).fill(COLLECTIVE_TONE)];

// The causes in the order of analysis.h: lightness is the theme's. Patterns: see tileBit.
const CAUSE_TONES = [
  {chroma: 0.006, hue: 260, pattern: 'rise-sparse'},   // warm-up
  {chroma: 0.006, hue: 260, pattern: 'fall-sparse'},   // cool-down
  {chroma: 0.10, hue: 245, pattern: 'rise'},           // activation
  {chroma: 0.12, hue: 55, pattern: 'fall'},            // gradient
  {chroma: 0.14, hue: 305, pattern: 'upright'},        // queue
  {chroma: 0.09, hue: 195, pattern: 'level'},          // collective
  {chroma: 0.17, hue: 15, pattern: 'cross'},           // memory
  {chroma: 0.11, hue: 118, pattern: 'grid'},           // copy
  {chroma: 0.006, hue: 260, pattern: 'dots'},          // other
];
// True for causes without a hue, whose ground alone is drawn where hatching does not fit.
const isQuiet = (cause) => CAUSE_TONES[cause].chroma < 0.01;

// True if this place of an 8 x 8 pattern has ink.
function tileBit(pattern, x, y) {
  const rise = (x + y) & 7, fall = (x - y) & 7;
  switch (pattern) {
    case 'rise-sparse': return rise === 0;
    case 'fall-sparse': return fall === 0;
    case 'rise': return (rise & 3) === 0 || rise === 1;
    case 'fall': return (fall & 3) === 0 || fall === 1;
    case 'upright': return (x & 3) === 0;
    case 'level': return (y & 3) === 0;
    case 'cross': return rise === 0 || fall === 0;
    case 'grid': return (x & 7) === 0 || (y & 3) === 0;
    default: return (x & 3) === 0 && (y & 3) === ((x & 4) >> 1);
  }
}

const THEMES = {
  light: {
    surface: [252, 252, 250], band: [245, 245, 242], lane: [237, 237, 233], line: [222, 222, 216],
    ink: [28, 30, 36], soft: [98, 101, 110], accent: [196, 30, 84], path: [20, 22, 28],
    select: [20, 22, 28], kindShift: 0, hatchInk: 0.66, hatchGround: 0.945, dim: 0.74,
  },
  dark: {
    surface: [19, 21, 26], band: [24, 26, 32], lane: [31, 34, 41], line: [47, 51, 60],
    ink: [232, 233, 237], soft: [150, 154, 165], accent: [255, 105, 150], path: [255, 255, 255],
    select: [255, 255, 255], kindShift: -0.035, hatchInk: 0.5, hatchGround: 0.265, dim: 0.72,
  },
};

// All colours of a theme, as pixels, as CSS, and tiles of `scale` device pixels a dot.
function makePaint(name, scale) {
  const theme = THEMES[name];
  const paint = {name, theme, css: {}, tileSize: 8 * scale, tiles: [], dimTiles: []};
  for (const key of Object.keys(theme).filter((key) => Array.isArray(theme[key]))) {
    paint[key] = pixel(theme[key]);
    paint.css[key] = css(theme[key]);
  }
  const tone = ([l, c, h], shift) => fromOklch(l + theme.kindShift + shift, c, h);
  // By toneAt(kind, shade, microbatch, slice).
  const rows = [];
  for (const base of ACTION_TONES) {
    for (let v = 0; v < 8; ++v) {
      rows.push(tone(base, (v & 4 ? LIGHTER : 0) + (v & 2 ? DARKER : 0) - (v & 1 ? 0.02 : 0)));
    }
  }
  paint.rgb = rows;
  paint.fill = Uint32Array.from(rows, pixel);
  paint.edge = Uint32Array.from(rows, (rgb) => pixel(mix(rgb, theme.surface, 0.55)));
  paint.dimFill = Uint32Array.from(rows, (rgb) => pixel(mix(rgb, theme.surface, theme.dim)));
  paint.dimEdge = paint.dimFill;
  // Black or white, whichever can be read; the same for all microbatches and slices.
  const texts = rows.map((_, tone) =>
    (lightOf(rows[tone & ~5]) > 0.19 ? [16, 18, 24] : [255, 255, 255]));
  paint.text = texts.map(css);
  paint.markRgb = rows.map((rgb, tone) => mix(rgb, texts[tone], 0.75));
  paint.mark = Uint32Array.from(paint.markRgb, pixel);
  paint.dimMark = Uint32Array.from(paint.markRgb, (rgb) => pixel(mix(rgb, theme.surface, theme.dim)));
  paint.kindCss = KIND_TONES.map((base) => css(tone(base, 0)));
  paint.causeCss = [];
  paint.causeRgb = [];
  for (const {chroma, hue, pattern} of CAUSE_TONES) {
    const ink = fromOklch(theme.hatchInk, chroma, hue);
    const ground = fromOklch(theme.hatchGround, chroma * 0.14, hue);
    paint.causeCss.push([css(ink), css(ground)]);
    paint.causeRgb.push(mix(ground, ink, 0.35));
    paint.tiles.push(makeTile(pattern, pixel(ink), pixel(ground), scale));
    paint.dimTiles.push(makeTile(pattern, pixel(mix(ink, theme.surface, 0.6)),
                                 pixel(mix(ground, theme.surface, 0.6)), scale));
  }
  return paint;
}

function makeTile(pattern, ink, ground, scale) {
  const size = 8 * scale;
  const tile = new Uint32Array(size * size);
  for (let y = 0; y < size; ++y) {
    for (let x = 0; x < size; ++x) {
      const there = tileBit(pattern, Math.floor(x / scale), Math.floor(y / scale));
      tile[y * size + x] = there ? ink : ground;
    }
  }
  return tile;
}

// A small picture of a cause's hatching, for legends and bars.
function tileImage(paint, cause) {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = paint.tileSize;
  const context = canvas.getContext('2d');
  const image = context.createImageData(paint.tileSize, paint.tileSize);
  new Uint32Array(image.data.buffer).set(paint.tiles[cause]);
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}
