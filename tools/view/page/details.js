// Words beside the picture: titles, the tooltip, the panel of details, the legend, the table.

// An element: tag.class, attributes, children; text is never markup.
function make(tag, attributes, ...children) {
  const [name, ...classes] = tag.split('.');
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(' ');
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === 'onclick') element.addEventListener('click', value);
    else if (key === 'style') element.style.cssText = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const byId = (id) => document.getElementById(id);
const letterOf = (t) => 'ABCDEFGH'[t.index] || String(t.index + 1);
const several = () => view.timelines.length > 1;

function fillTitles() {
  byId('titles').replaceChildren(...view.timelines.map((t) => {
    const [name, ...params] = t.head.title.split(' ');
    const computations = t.kind.reduce((sum, kind) => sum + (kind < COMPUTE_KINDS ? 1 : 0), 0);
    const facts = [
      make('span.fact', {}, make('b', {}, timeWords(t.makespan)), ' makespan'),
      make('span.fact', {}, make('b', {}, shareWords(t.head.bubble)), ' bubble',
           rankShares(t.head)),
      make('span.fact', {}, make('b', {}, t.ranks.toLocaleString('en')),
           t.ranks === 1 ? ' rank' : ' ranks'),
      make('span.fact', {}, make('b', {}, computations.toLocaleString('en')), ' actions'),
    ];
    if (several()) facts.length = 2;
    return make('div.title', {},
                several() ? make('span.letter', {}, letterOf(t)) : null,
                make('h1', {}, name, make('span.params', {}, ` ${params.join(' ')}`)),
                make('span.facts', {}, make('span.fact', {}, t.head.origin), ...facts,
                     t.head.reconstructed ? make('span.fact.long', {}, t.head.reconstructed) : null));
  }));
  byId('titles').classList.toggle('several', several());
  if (view.timelines.length === 2) {
    const words = differenceWords(view.timelines[0], view.timelines[1]);
    byId('titles').append(make('div.delta', {}, words));
  }
}

// Nanoseconds of all ranks by kind of computation, and by cause.
function totalsOf(t) {
  if (t.totals) return t.totals;
  const work = new Array(COMPUTE_KINDS).fill(0), causes = t.head.causes.map(() => 0);
  for (let i = 0; i < t.n; ++i) {
    if (!isCompute(t, i)) continue;
    const parts = t.joined[i] || t.joined[i + 1] ? groupOf(t, i)[1] : 1;  // share its time
    work[t.kind[i]] += (t.end[i] - t.start[i]) / parts;
  }
  for (const rank of t.head.ranks) rank.causes.forEach((ns, cause) => { causes[cause] += ns; });
  return t.totals = {work, causes, all: Math.max(1, t.makespan * t.ranks)};
}

const causeStyle = (paint, cause) =>
  `background: url(${paint.tileUrls[cause]}) 0 0 / 8px 8px;`;

// Pieces of a bar: [share, style, title].
function sharesBar(pieces, label) {
  return make('div.shares', {role: 'img', 'aria-label': label}, ...pieces
    .filter(([share]) => share > 0)
    .map(([share, style, title]) => make('i', {style: `width: ${100 * share}%; ${style}`, title})));
}

function summaryOf(t) {
  const {paint} = picture;
  const {work, causes, all} = totalsOf(t);
  const pieces = [], rows = [];
  const add = (name, ns, style) => {
    if (!ns) return;
    pieces.push([ns / all, style, `${name} ${shareWords(ns / all)}`]);
    rows.push(make('i.swatch', {style}), make('span', {}, name),
              make('span', {}, timeWords(Math.round(ns / t.ranks))),
              make('span', {}, shareWords(ns / all)));
  };
  work.forEach((ns, kind) =>
    add(`${t.head.kinds[kind][0]}  ${COMPUTE_NAMES[kind]}`, ns,
        `background: ${paint.kindCss[kind]};`));
  causes.forEach((ns, cause) =>
    add(`idle: ${t.head.causes[cause]}`, ns, causeStyle(paint, cause)));
  return [make('h3', {}, several() ? `${letterOf(t)}: ${t.head.title}` : 'A mean rank\u2019s step'),
          sharesBar(pieces, 'where the time goes'), make('div.rows', {}, ...rows)];
}

function fillDetails() {
  const panel = byId('details');
  if (!view.selected) {
    panel.replaceChildren(
      make('h2', {}, 'Where the time goes'), ...view.timelines.flatMap(summaryOf),
      ...peaks(),
      ...view.timelines.flatMap((t) => mapOf(t)),
      make('h3', {}, 'Look closer'),
      make('p.quiet', {}, 'Click an action to see what it needs, its messages and why it waited. ' +
                          'Scroll to zoom, drag to move, press ? for all keys.'));
    return;
  }
  const {t, event, idle} = view.selected;
  panel.replaceChildren(...(event !== NONE ? eventDetails(t, event) : idleDetails(t, idle)));
}

function peaks() {
  const with_ = view.timelines.filter((t) => t.head.memory && t.head.memory.peaks.length);
  if (!with_.length) return [];
  return [make('h3', {}, 'Most held at once'), make('dl', {}, ...with_.flatMap((t) => {
    let rank = 0;
    t.head.memory.peaks.forEach(([peak], r) => {
      if (peak > t.head.memory.peaks[rank][0]) rank = r;
    });
    const [peak, when] = t.head.memory.peaks[rank];
    const where = `${several() ? `${letterOf(t)}, ` : ''}rank ${rank} at ${timeWords(when)}`;
    return [make('dt', {}, where), make('dd', {}, amountWords(t, peak))];
  }))];
}

const closeButton = () =>
  make('button', {onclick: () => select(null), title: 'Clear (Esc)'}, 'Clear');

const factList = (...pairs) => make('dl', {}, ...pairs.flatMap(([name, value]) =>
  [make('dt', {}, name), make('dd', {}, value)]));

function eventLink(t, i, words) {
  const onclick = () => select({t, event: i, idle: NONE}, true);
  return make('li', {}, make('button.link', {onclick}, make('b', {}, actionName(t, i)),
                             make('span', {}, words)));
}

function eventDetails(t, i) {
  const links = linksOf(t, i);
  const [first, parts] = isCompute(t, i) ? groupOf(t, i) : [i, 1];
  const list = (title, items) =>
    (items.length ? [make('h3', {}, title), make('ul', {}, ...items)] : []);
  const stretch = (k) => `rank ${t.rankOf[k]}, at ${timeWords(t.start[k])}`;
  const ends = new Set(links.messages.flatMap(([send, recv]) => [send, recv]));
  const pieces = placePieces(t, i), place = placeWords(t, i);
  return [
    make('h2', {}, actionName(t, i), closeButton()),
    make('p.quiet', {}, t.head.kinds[t.kind[i]][1]),
    parts > 1 ? make('p.quiet', {}, `shares the rank: ${groupName(t, first)}`) : null,
    factList(...[several() ? ['timeline', letterOf(t)] : null,
              ['rank', t.rankOf[i]], ['stage', stageName(t, t.stage[i])],
              t.microbatch[i] < 0 ? null : ['microbatch', microbatchWords(t, i)],
              ['start', timeWords(t.start[i])], ['end', timeWords(t.end[i])],
              ['length', timeWords(t.end[i] - t.start[i])],
              observedFact(t, i),
              t.critical.length ? ['on the critical path', t.onPath[i] ? 'yes' : 'no'] : null,
    ].filter(Boolean)),
    ...(isCompute(t, i) ? mapOf(t, [t.stage[i]]) : []),
    make('h3', {}, 'Why not earlier'),
    ...whyWords(t, i).map((words) => make('p', {}, words)),
    ...(place ? [make('h3', {}, 'Written in'), make('p', {}, place)] : []),
    pieces ? make('pre.code', {}, pieces[0], make('mark', {}, pieces[1]), pieces[2]) : null,
    ...list('Needs', links.needs.map((k) => eventLink(t, k, stretch(k)))),
    ...list('Messages', [...ends].map((k) => eventLink(t, k, stretch(k)))),
    ...list('Needed by', links.users.map((k) => eventLink(t, k, stretch(k)))),
  ].filter(Boolean);
}

// The observed times of an event whose start comes from the plan's rules; null without any.
function observedFact(t, i) {
  if (i >= t.observedStart.length) return null;
  const start = t.observedStart[i], end = t.observedEnd[i];
  const moved = start - t.start[i];
  if (start === end) return ['observed', `only the end, ${timeWords(end)}`];
  const words = moved === 0 ? '' : `; it started ${timeWords(Math.abs(moved))} ` +
    `${moved > 0 ? 'after' : 'before'} the start above, which is reconstructed`;
  return ['observed', `${timeWords(start)} to ${timeWords(end)}${words}`];
}

function idleDetails(t, s) {
  const {idle} = t;
  const related = [idle.waiting[s], idle.for[s]].filter((k) => k >= 0);
  return [
    make('h2', {}, `Idle: ${t.head.causes[idle.cause[s]]}`, closeButton()),
    make('p', {}, idleWords(t, s)),
    factList(...[several() ? ['timeline', letterOf(t)] : null, ['rank', idle.rank[s]],
              ['from', timeWords(idle.start[s])], ['to', timeWords(idle.end[s])],
              ['length', timeWords(idle.end[s] - idle.start[s])],
              ['of the step', shareWords((idle.end[s] - idle.start[s]) / Math.max(1, t.makespan))],
    ].filter(Boolean)),
    ...(related.length ? [make('h3', {}, 'Between'), make('ul', {}, ...related.map((k) =>
      eventLink(t, k, `rank ${t.rankOf[k]}, ends ${timeWords(t.end[k])}`)))] : []),
  ];
}

// The text of a screen reader for a spot.
function spokenWords({t, event, idle}) {
  if (event === NONE) {
    return `idle on rank ${t.idle.rank[idle]}, ${t.head.causes[t.idle.cause[idle]]}: ` +
           `${idleWords(t, idle)}; ${timeWords(t.idle.end[idle] - t.idle.start[idle])}`;
  }
  const length = timeWords(t.end[event] - t.start[event]);
  const name = `${several() ? `${letterOf(t)}: ` : ''}${actionName(t, event)}`;
  const why = whyWords(t, event).join('; ');
  return `${name}, rank ${t.rankOf[event]}, starts at ${timeWords(t.start[event])}, ` +
         `takes ${length}; ${why}`;
}

function tipOf(hit) {
  const {t} = hit;
  if (hit.gutter || hit.lane === NONE) return rankTip(t, hit);
  if (hit.event !== NONE) {
    const i = hit.event, place = placeWords(t, i), pieces = placePieces(t, i);
    const part = hit.part === NONE ? '' : ` (${partName(t, hit.part)})`;
    const messageWith = t.otherEnd[i] === NONE ? '' : `, with rank ${t.rankOf[t.otherEnd[i]]}`;
    return [
      make('strong', {}, groupName(t, i) + part),
      make('span.quiet', {}, `  rank ${t.rankOf[i]}${messageWith}`),
      hasPipes(t) && t.microbatch[i] >= 0
        ? make('p', {}, `microbatch ${microbatchWords(t, i)}`) : null,
      make('p', {}, `starts ${timeWords(t.start[i])}, takes ${timeWords(t.end[i] - t.start[i])}`),
      edgeWords(t, i) ? make('p', {}, edgeWords(t, i)) : null,
      ...whyWords(t, i).map((words) => make('p', {}, words)),
      place ? make('p.quiet', {}, place) : null,
      pieces ? make('pre.code', {}, pieces[0], make('mark', {}, pieces[1]), pieces[2]) : null,
    ].filter(Boolean);
  }
  if (hit.idle === NONE) return null;
  const s = hit.idle;
  return [make('strong', {}, `idle ${timeWords(t.idle.end[s] - t.idle.start[s])}`),
          make('span.quiet', {}, `  rank ${t.idle.rank[s]}, ${t.head.causes[t.idle.cause[s]]}`),
          make('p', {}, idleWords(t, s))];
}

function rankTip(t, hit) {
  const head = t.head.ranks[hit.rank], all = Math.max(1, t.makespan);
  if (!hit.gutter && t.memory[hit.rank]) {
    const curve = t.memory[hit.rank];
    const k = lowerBound(curve.time, hit.time + 1e-9) - 1;
    const [peak, when] = t.head.memory.peaks[hit.rank];
    return [make('strong', {}, k < 0 ? 'holds nothing' : amountWords(t, curve.amount[k])),
            make('span.quiet', {}, `  rank ${hit.rank}, at ${timeWords(Math.round(hit.time))}`),
            make('p', {}, `at most ${amountWords(t, peak)}, at ${timeWords(when)}`)];
  }
  if (!hit.gutter) return null;
  return [make('strong', {}, `rank ${hit.rank}`),
          make('p', {}, `busy ${timeWords(head.busy)}, ${shareWords(head.busy / all)}`),
          ...head.causes.flatMap((ns, cause) => (ns
            ? [make('p', {}, make('i.swatch', {style: causeStyle(picture.paint, cause)}),
                    ` ${t.head.causes[cause]} ${timeWords(ns)}, ${shareWords(ns / all)}`)] : []))];
}

function fillLegend() {
  const {paint} = picture;
  const kinds = new Set(), causes = new Set();
  for (const t of view.timelines) {
    totalsOf(t).work.forEach((ns, kind) => { if (ns) kinds.add(kind); });
    totalsOf(t).causes.forEach((ns, cause) => { if (ns) causes.add(cause); });
  }
  const [t] = view.timelines;
  byId('legend').replaceChildren(
    ...[...kinds].sort((a, b) => a - b).map((kind) => make('span', {},
      make('i.swatch', {style: `background: ${paint.kindCss[kind]}`}),
      `${t.head.kinds[kind][0]} ${COMPUTE_NAMES[kind]}`)),
    ...copyLegend(),
    ...shadeLegend([...kinds].sort((a, b) => a - b)[0] || 0),
    ...[...causes].sort((a, b) => a - b).map((cause) => make('span', {},
      make('i.swatch', {style: causeStyle(paint, cause)}), `idle: ${t.head.causes[cause]}`)));
}

// The kinds of copies in the timelines, a schedule's own among them, in the tone of their direction.
function copyLegend() {
  const {paint} = picture;
  const tones = new Map();
  for (const t of view.timelines) {
    for (let kind = OFFLOAD; kind < UNSHARD; ++kind) {
      if (!t.kind.includes(kind)) continue;
      const tone = kind < FETCH ? OFFLOAD : FETCH;
      const way = kind === OFFLOAD ? 'copy to the host' : kind < FETCH ? 'copy from the device'
                  : kind === FETCH ? 'copy from the host' : 'copy to the device';
      tones.set(`${t.head.kinds[kind][0]} ${way}`, tone);
    }
  }
  return [...tones].map(([name, tone]) => make('span', {},
    make('i.swatch', {style: `background: ${css(paint.rgb[toneAt(tone, 0, 0)])}`}), name));
}

// The shades of a rank's stages, in the colour of a kind in the picture.
function shadeLegend(kind) {
  const {paint} = picture;
  const shades = new Map();
  for (const t of view.timelines) {
    t.head.shade_names.forEach((name, shade) => {
      if (name && t.head.shade_names.length > 1) shades.set(`${shade} ${name}`, [shade, name]);
    });
  }
  return [...shades.values()].map(([shade, name]) => {
    const tone = toneAt(kind, shade, 0);
    const bar = isMarked(shade) ? `; box-shadow: inset 0 -2px ${css(paint.markRgb[tone])}` : '';
    return make('span', {},
                make('i.swatch', {style: `background: ${css(paint.rgb[tone])}${bar}`}), name);
  });
}

function fillTable() {
  byId('ranks').replaceChildren(...view.timelines.flatMap((t) => {
    const causes = t.head.causes.map((_, c) => c).filter((c) => totalsOf(t).causes[c] > 0);
    const names = causes.map((c) => t.head.causes[c]);
    const head = ['rank', 'busy', 'busy %', 'idle', ...names, 'peak', 'shares'];
    const listed = t.head.ranks.slice(0, MOST_TABLE_ROWS);
    const rows = listed.map((rank, r) => rankRow(t, rank, r, causes));
    const rest = t.ranks - rows.length;
    const caption = `Busy and idle time of every rank of ${t.head.title}, ${t.head.origin}; idle ` +
      'time by cause; peak: most stage activations alive at once' +
      (rest > 0 ? `; ${rest} more ranks are not listed` : '');
    return [
      make('h2', {}, several() ? `Ranks of ${letterOf(t)}: ${t.head.title}` : 'Ranks'),
      make('div.scroll', {}, make('table', {}, make('caption', {}, caption),
        make('thead', {}, make('tr', {}, ...head.map((name) => make('th', {scope: 'col'}, name)))),
        make('tbody', {}, ...rows))),
    ];
  }));
}

const MOST_TABLE_ROWS = 1024;

function rankRow(t, rank, r, causes) {
  const {paint} = picture, all = Math.max(1, t.makespan);
  const cell = (words) => make('td', {}, words);
  const idle = causes.map((c) => [rank.causes[c] / all, causeStyle(paint, c), t.head.causes[c]]);
  const pieces = [[rank.busy / all, 'background: var(--soft);', 'busy'], ...idle];
  return make('tr', {}, make('th', {scope: 'row'}, r), cell(timeWords(rank.busy)),
              cell((100 * rank.busy / all).toFixed(1)), cell(timeWords(rank.idle)),
              ...causes.map((c) => cell(rank.causes[c] ? timeWords(rank.causes[c]) : '\u2013')),
              cell(rank.peak), make('td.bar', {}, sharesBar(pieces, `rank ${r}`)));
}
