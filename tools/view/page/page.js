// The page begins here: reads its data, and turns input into changes of the view.

const KEYS = [
  ['+ \u2212', 'zoom in and out (also: wheel, pinch, double click)'],
  ['\u2190 \u2192', 'move in time (also: drag; with Shift a screen at once)'],
  ['\u2191 \u2193', 'move over the ranks'],
  ['0', 'the whole step'],
  ['n p', 'next and previous action of the rank'],
  ['j k', 'the action at that time on the next and previous rank'],
  ['z', 'zoom to what is selected'],
  ['/', 'find an action'],
  ['c', 'critical path'],
  ['m', 'lines of messages'],
  ['l', 'lanes beside computation (a click beside a rank: its own)'],
  ['y', 'memory curves'],
  ['[ ]', 'lower and higher rows'],
  ['t', 'colours: as the system, light, dark'],
  ['Esc', 'clear what is selected'],
];

let framePending = false;
const frames = {count: 0, lastMs: 0};

// Draws at the next moment the screen is ready; `upperOnly` if time and rows are as they were.
let lowerIsStale = true;
function refresh(upperOnly) {
  lowerIsStale = lowerIsStale || !upperOnly;
  if (framePending) return;
  framePending = true;
  requestAnimationFrame(() => {
    framePending = false;
    const began = performance.now();
    if (lowerIsStale) {
      lowerIsStale = false;
      drawLower();
      drawOverview();
      fillRange();
    }
    rememberPlace();
    drawUpper();
    frames.count++;
    frames.lastMs = performance.now() - began;
  });
}

// The view stands behind the # of the page's address, so that a place can be shared:
// #from=1000&to=2000&action=3F7&in=B
let addressTimer = 0;
function rememberPlace() {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => {
    const parts = [];
    if (view.span < view.longest) {
      parts.push(`from=${Math.round(view.t0)}`, `to=${Math.round(view.t0 + view.span)}`);
    }
    if (view.selected && view.selected.event !== NONE) {
      parts.push(`action=${encodeURIComponent(actionName(view.selected.t, view.selected.event))}`);
      if (view.selected.t.index) parts.push(`in=${letterOf(view.selected.t)}`);
    }
    for (const name of ['critical', 'messages']) if (view[name]) parts.push(name);
    try {
      history.replaceState(null, '', `#${parts.join('&')}`);
    } catch (refused) {
      // The page is good without.
    }
  }, 300);
}

function goToPlace() {
  const place = new URLSearchParams(location.hash.slice(1));
  const from = Number(place.get('from')), to = Number(place.get('to'));
  if (to > from) showTime(from, to);
  for (const name of ['critical', 'messages']) {
    if (place.has(name) && !byId(name).disabled) toggle(name);
  }
  const t = view.timelines.find((u) => letterOf(u) === place.get('in')) || view.timelines[0];
  const event = t && place.get('action') ? findAction(t, place.get('action')) : NONE;
  if (event !== NONE) select({t, event, idle: NONE}, true);
}

function fillRange() {
  const hidden = view.messages && view.timelines.some((t) => t.tooManyMessages);
  byId('range').textContent = (hidden ? 'too many messages: zoom in   ' : '') +
    `${timeWords(Math.round(view.t0))} \u2013 ${timeWords(Math.round(view.t0 + view.span))}` +
    (view.span < view.longest ? `, ${timeWords(Math.round(view.span))} in all` : '');
}

function changeLayout() {
  layOut();
  refresh();
}

function select(spot, revealIt) {
  view.selected = spot;
  if (spot && revealIt) {
    if (spot.event !== NONE) reveal(spot.t, spot.event);
    refresh();
  }
  fillDetails();
  byId('live').textContent = spot ? spokenWords(spot) : '';
  refresh(true);
}

function toggle(name) {
  view[name] = !view[name];
  byId(name).setAttribute('aria-pressed', String(view[name]));
  if (name === 'lanes') view.folds.clear();
  byId('live').textContent = `${byId(name).textContent} ${view[name] ? 'on' : 'off'}`;
  changeLayout();
}

function remembered(value) {
  try {
    if (value !== undefined) localStorage.setItem('stringline-theme', value);
    return localStorage.getItem('stringline-theme') || 'auto';
  } catch (refused) {
    return value || 'auto';
  }
}

let themeChoice = 'auto';
function applyTheme() {
  const dark = themeChoice === 'dark' ||
    (themeChoice === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
  const name = dark ? 'dark' : 'light';
  document.documentElement.dataset.theme = name;
  picture.paint = makePaint(name, Math.max(1, Math.round(view.ratio)));
  picture.paint.tileUrls = picture.paint.tiles.map((_, cause) => tileImage(picture.paint, cause));
  byId('theme').textContent = themeChoice[0].toUpperCase() + themeChoice.slice(1);
  fillDetails();
  fillLegend();
  fillTable();
  refresh();
}

function nextTheme() {
  themeChoice = {auto: 'light', light: 'dark', dark: 'auto'}[themeChoice];
  remembered(themeChoice);
  applyTheme();
}

// Canvases follow their place on the page.
function resize() {
  const plot = byId('plot').getBoundingClientRect();
  const ratio = Math.min(3, window.devicePixelRatio || 1);
  const rescaled = ratio !== view.ratio;
  view.ratio = ratio;
  view.width = Math.max(320, Math.floor(plot.width));
  view.height = Math.max(100, Math.floor(plot.height));
  view.gutter = view.width < 560 ? 96 : 172;
  for (const id of ['lower', 'upper']) {
    byId(id).width = view.width * ratio;
    byId(id).height = view.height * ratio;
  }
  const overview = byId('overview');
  overview.width = Math.floor(overview.clientWidth * ratio);
  overview.height = Math.floor(overview.clientHeight * ratio);
  picture.raster = makeRaster(picture.lower, byId('lower').width, byId('lower').height);
  if (rescaled) applyTheme();
  changeLayout();
}

function findText(text) {
  const box = byId('find');
  box.classList.remove('missing');
  if (!text.trim()) return;
  const after = view.selected && view.found === text ? view.selected.t.index + 1 : 0;
  for (let k = 0; k < view.timelines.length; ++k) {
    const t = view.timelines[(after + k) % view.timelines.length];
    const event = findAction(t, text);
    if (event === NONE) continue;
    view.found = text;
    select({t, event, idle: NONE}, true);
    return;
  }
  box.classList.add('missing');
  byId('live').textContent = `no action ${text}`;
}

// Selects the action before or after the selected action, or the action of another rank at its
// time.
function step(along, across) {
  if (!view.selected) {
    const [t] = view.timelines;
    if (!t || !t.ranks) return;
    const lane = laneOf(t, 0, 0);
    const k = lane.ref.findIndex((ref) => ref >= 0);
    if (k >= 0) select({t, event: lane.ref[k], idle: NONE}, true);
    return;
  }
  const {t, event, idle} = view.selected;
  if (across) {
    const rank = (event === NONE ? t.idle.rank[idle] : t.rankOf[event]) + across;
    if (rank < 0 || rank >= t.ranks) return;
    const lane = laneOf(t, rank, 0);
    const k = Math.min(stretchAt(lane, event === NONE ? t.idle.start[idle] : t.start[event], 0),
                       lane.ref.length - 1);
    if (k < 0) return;
    const ref = lane.ref[k];
    const spot = ref >= 0 ? {t, event: ref, idle: NONE} : {t, event: NONE, idle: -1 - ref};
    select(spot, true);
    return;
  }
  let from = event;
  if (event === NONE) from = along > 0 ? t.idle.waiting[idle] : NONE;
  const to = from === NONE ? NONE
    : event === NONE ? from
    : along > 0 ? computeAfter(t, from)
    : computeBefore(t, isCompute(t, from) ? groupOf(t, from)[0] : from);
  if (to !== NONE) select({t, event: to, idle: NONE}, true);
}

function zoomToSelected() {
  if (!view.selected) return;
  const {t, event, idle} = view.selected;
  const [from, to] = event === NONE ? [t.idle.start[idle], t.idle.end[idle]]
    : [t.start[event], t.end[event]];
  showTime(from - 4 * (to - from + 1), to + 4 * (to - from + 1));
  refresh();
}

const middleTime = () => view.t0 + view.span / 2;

const ACTIONS = {
  '+': () => zoomAt(middleTime(), 1 / 1.5), '=': () => zoomAt(middleTime(), 1 / 1.5),
  '-': () => zoomAt(middleTime(), 1.5), '_': () => zoomAt(middleTime(), 1.5),
  '0': () => showTime(0, view.longest), 'Home': () => { view.t0 = 0; clampView(); },
  'End': () => { view.t0 = view.longest; clampView(); },
  'ArrowLeft': (shift) => { view.t0 -= view.span * (shift ? 0.9 : 0.12); clampView(); },
  'ArrowRight': (shift) => { view.t0 += view.span * (shift ? 0.9 : 0.12); clampView(); },
  'ArrowUp': () => { view.scrollY -= 40; clampView(); },
  'ArrowDown': () => { view.scrollY += 40; clampView(); },
  'PageUp': () => { view.scrollY -= view.height * 0.8; clampView(); },
  'PageDown': () => { view.scrollY += view.height * 0.8; clampView(); },
  'n': () => step(1, 0), 'p': () => step(-1, 0), 'j': () => step(0, 1), 'k': () => step(0, -1),
  'z': zoomToSelected,
  'c': () => toggle('critical'), 'm': () => toggle('messages'), 'l': () => toggle('lanes'),
  'y': () => toggle('memory'), 't': nextTheme,
  '[': () => changeRows(0.8), ']': () => changeRows(1.25),
  '?': () => byId('keys').showModal(), '/': () => byId('find').focus(),
  'Escape': () => select(null),
};

function changeRows(factor) {
  const now = view.rowHeight || fittingHeight();
  const wanted = factor > 1 ? Math.ceil(now * factor) : Math.floor(now * factor);
  view.rowHeight = Math.max(4, Math.min(96, wanted));
  layOut();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId('keys').open) return;
  const typing = event.target === byId('find');
  if (typing) {
    if (event.key === 'Escape') byId('upper').focus();
    return;
  }
  const onButton = event.target.tagName === 'BUTTON';
  if (onButton && (event.key === 'Enter' || event.key === ' ')) return;
  const moves = event.key.startsWith('Arrow') || event.key.startsWith('Page') ||
    event.key === 'Home' || event.key === 'End';
  if (moves && event.target !== byId('upper') && event.target !== document.body) return;
  const action = ACTIONS[event.key] || ACTIONS[event.key.toLowerCase()];
  if (!action) return;
  event.preventDefault();
  action(event.shiftKey);
  refresh();
}

function fillKeys() {
  const rows = KEYS.flatMap(([keys, does]) =>
    [make('dt', {}, ...keys.split(' ').flatMap((key) => [make('kbd', {}, key), ' '])),
     make('dd', {}, does)]);
  byId('keys').replaceChildren(make('h2', {}, 'Keys'), make('dl', {}, ...rows),
                               make('form', {method: 'dialog'}, make('button', {}, 'Close')));
}

function begin() {
  const heads = JSON.parse(byId('headers').textContent);
  const texts = document.querySelectorAll('script.columns');
  heads.forEach((head, index) => {
    const t = readTimeline(head, bytesOf(texts[index].textContent), index);
    texts[index].remove();
    view.timelines.push(t);
  });
  view.longest = Math.max(1, ...view.timelines.map((t) => t.makespan));
  view.span = view.longest;
  view.memory = rankCount() <= 16 && view.timelines.some((t) => t.memory.length > 0);
  for (const name of ['critical', 'messages', 'lanes', 'memory']) {
    byId(name).setAttribute('aria-pressed', String(view[name]));
    byId(name).addEventListener('click', () => toggle(name));
  }
  byId('critical').disabled = view.timelines.every((t) => !t.critical.length);
  byId('messages').disabled = view.timelines.every((t) => !t.send.length);
  byId('memory').disabled = view.timelines.every((t) => !t.memory.length);
  byId('upper').setAttribute('aria-label',
    `Timeline of ${view.timelines.map((t) => t.head.title).join(' and ')}. ` +
    'N and P go from action to action, J and K from rank to rank, question mark lists all keys.');
  for (const id of ['lower', 'upper']) picture[id] = byId(id).getContext('2d');
  picture.overview = {canvas: byId('overview'), context: byId('overview').getContext('2d')};
  themeChoice = remembered();
  view.ratio = Math.min(3, window.devicePixelRatio || 1);
  fillTitles();
  fillKeys();
  applyTheme();
  // Lanes beside computation are unfolded if they fit.
  view.lanes = rankCount() <= 8;
  resize();
  if (view.lanes && heightLeft() < 30) toggle('lanes');
  byId('lanes').setAttribute('aria-pressed', String(view.lanes));
  byId('live').textContent = '';
  goToPlace();
  listen();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

begin();
