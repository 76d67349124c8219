// extension_test.js EXTENSION TOOL: the extension in this folder, in a stand-in for the editor,
// beside the real language server.
"use strict";

const assert = require("assert");
const Module = require("module");
const path = require("path");
const editor = require("./editor.js");

const [folder, tool] = process.argv.slice(2);
const load = Module._load;
Module._load = (name, ...more) => (name === "vscode" ? editor.vscode : load(name, ...more));

const { Document, commands, documents, errors, findings, listeners, providers, settings } = editor;
const extension = require(path.resolve(folder, "extension.js"));

setTimeout(() => {
  console.error("it takes longer than anything does");
  process.exit(1);
}, 60000).unref();

const TEXT = `# größer 😀
schedule s(P, M) {
  stages P on line; let warmup = M;  require P > 1 "😀"; let n = warmup;
  rank r {
    repeat n { F r }
    repeat n { B r }
  }
}
`;

// Resolves when the server next publishes findings.
const told = () => new Promise((resolve) => (listeners.findings = resolve));

async function opened(text) {
  const document = new Document("file:///folder/x.sched", text);
  documents.splice(0, documents.length, document);
  const said = told();
  listeners.opened(document);
  await said;
  return document;
}

async function replaced(document, part, text) {
  const start = document.at(part);
  const end = { line: start.line, character: start.character + part.length };
  document.text = document.text.replace(part, text);
  ++document.version;
  const said = told();
  listeners.changed({ document, contentChanges: [{ range: { start, end }, text }] });
  await said;
}

const place = ({ start }) => `${start.line}:${start.character}`;

async function showsWhatIsWrong() {
  const document = await opened(TEXT);
  const found = () => findings.get("file:///folder/x.sched");
  assert.deepStrictEqual(found(), []);
  await replaced(document, "= warmup", "= wramup");
  assert.strictEqual(found().length, 1);
  assert.match(found()[0].message, /did you mean 'warmup'/);
  assert.strictEqual(found()[0].severity, 0);
  assert.strictEqual(found()[0].code, "unknown-name");
  assert.strictEqual(place(found()[0].range), "2:65");
  await replaced(document, "= wramup", "= warmup");
  assert.deepStrictEqual(found(), []);
}

async function answersTheEditor() {
  const document = await opened(TEXT);
  const hover = await providers.hovers.provideHover(document, document.at("rank r"));
  assert.match(hover.contents.value, /s P=4 M=8  simulated[^]*rank 3  ······F0/);
  assert.strictEqual(await providers.hovers.provideHover(document, document.at("{")), null);

  const use = document.at("warmup;");
  const definition = await providers.definitions.provideDefinition(document, use);
  assert.strictEqual(place(definition.range), "2:24");
  assert.strictEqual(definition.uri.toString(), "file:///folder/x.sched");
  const uses = await providers.references.provideReferences(document, use, {
    includeDeclaration: false,
  });
  assert.deepStrictEqual(uses.map(({ range }) => place(range)), ["2:65"]);

  const items = await providers.completions.provideCompletionItems(document, document.at("ne;"));
  const labels = items.map((item) => item.label).join(" ");
  assert.strictEqual(labels, "line loop v wave reversed");
  assert.strictEqual(items[0].kind, 13); // Keyword
  assert.strictEqual(place(items[0].range), "2:14");
  assert.deepStrictEqual(providers.completions.more, [".", '"']);

  const [schedule] = await providers.symbols.provideDocumentSymbols(document);
  assert.strictEqual(schedule.name, "s");
  const inside = schedule.children.map(({ name }) => name);
  assert.deepStrictEqual(inside, ["P", "M", "warmup", "n", "rank r"]);

  const ugly = await opened("schedule s(P,M){ stages P on line; rank r{ repeat M{F r;B r} } }\n");
  const options = { tabSize: 2, insertSpaces: true };
  const edits = await providers.layouts.provideDocumentFormattingEdits(ugly, options);
  assert.strictEqual(edits.length, 1);
  assert.match(edits[0].newText, /^schedule s\(P, M\) { stages P on line; rank r { repeat M/);
  assert.strictEqual(place(edits[0].range), "0:0");
}

async function renames() {
  const document = await opened(TEXT);
  const word = document.at("warmup;");
  const { placeholder } = await providers.renames.prepareRename(document, word);
  assert.strictEqual(placeholder, "warmup");
  const { edits } = await providers.renames.provideRenameEdits(document, word, "first");
  const ours = edits.get("file:///folder/x.sched");
  assert.deepStrictEqual(ours.map(({ range }) => place(range)), ["2:24", "2:65"]);
  assert.ok(ours.every(({ newText }) => newText === "first"));
  await assert.rejects(
    providers.renames.provideRenameEdits(document, word, "n"), /'n' is a value already, in line 3/,
  );
  await assert.rejects(providers.renames.prepareRename(document, document.at("rank")), /a word of/);
}

// Answers that come in many pieces, cut within characters.
async function takesLongAnswers() {
  const document = await opened(`${"# 😀\n".repeat(20000)}${TEXT.replaceAll("r {", "ä {")}`);
  const found = findings.get("file:///folder/x.sched");
  assert.strictEqual(found.length, 1);
  await replaced(document, "rank ä {", "rank r {");
  assert.strictEqual(findings.get("file:///folder/x.sched").length, 0);
  const library = await opened("");
  const start = { line: 0, character: 0 };
  const items = await providers.completions.provideCompletionItems(library, start);
  const whole = items.find((item) => item.label === "zb_v");
  assert.match(whole.insertText, /^#[^]*schedule zb_v\(P, M/);
}

// The tool is missing at first, and then appears.
async function saysWhenItDoesNotRun() {
  const document = await opened(TEXT);
  settings.tool = path.resolve(folder, "missing");
  await commands["stringline.restart"]();
  await assert.rejects(providers.hovers.provideHover(document, document.at("rank")));
  assert.strictEqual(errors.length, 1);
  assert.match(errors[0], /missing does not start[^]*stringline\.tool/);
  settings.tool = tool;
  const said = told();
  listeners.configured({ affectsConfiguration: (name) => name === "stringline.tool" });
  await said; // the text is open there too
  assert.ok(await providers.hovers.provideHover(document, document.at("rank")));
  assert.strictEqual(errors.length, 1);
}

(async () => {
  settings.tool = tool;
  const context = { subscriptions: [] };
  extension.activate(context);
  assert.ok(context.subscriptions.every(({ dispose }) => typeof dispose === "function"));
  for (const test of [
    showsWhatIsWrong, answersTheEditor, renames, takesLongAnswers, saysWhenItDoesNotRun,
  ]) {
    await test();
    console.log(`${test.name}: good`);
  }
  await extension.deactivate();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
