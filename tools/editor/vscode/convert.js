// From the protocol's values to the editor's, and back. Both count lines and UTF-16 units from 0;
// the kinds of symbols are the protocol's numbers less one.
"use strict";

const vscode = require("vscode");

const fromPosition = ({ line, character }) => ({ line, character });
const fromRange = ({ start, end }) => ({ start: fromPosition(start), end: fromPosition(end) });

const toPosition = ({ line, character }) => new vscode.Position(line, character);
const toRange = ({ start, end }) => new vscode.Range(toPosition(start), toPosition(end));
const toLocation = ({ uri, range }) => new vscode.Location(vscode.Uri.parse(uri), toRange(range));
const toEdit = ({ range, newText }) => vscode.TextEdit.replace(toRange(range), newText);

function toHover({ contents, range }) {
  return new vscode.Hover(new vscode.MarkdownString(contents.value), toRange(range));
}

function toDiagnostic(finding) {
  const severity = finding.severity - 1;
  const diagnostic = new vscode.Diagnostic(toRange(finding.range), finding.message, severity);
  diagnostic.code = finding.code;
  diagnostic.source = finding.source;
  diagnostic.relatedInformation = finding.relatedInformation.map(
    ({ location, message }) =>
      new vscode.DiagnosticRelatedInformation(toLocation(location), message),
  );
  return diagnostic;
}

function toCompletion(item) {
  const completion = new vscode.CompletionItem(item.label, item.kind - 1);
  completion.detail = item.detail;
  completion.insertText = item.textEdit.newText;
  completion.range = toRange(item.textEdit.range);
  if (item.documentation) {
    completion.documentation = new vscode.MarkdownString(item.documentation.value);
  }
  return completion;
}

function toSymbol(entry) {
  const { name, detail, kind, range, selectionRange, children } = entry;
  const symbol = new vscode.DocumentSymbol(
    name, detail, kind - 1, toRange(range), toRange(selectionRange),
  );
  symbol.children = children.map(toSymbol);
  return symbol;
}

function toWorkspaceEdit({ changes }) {
  const edit = new vscode.WorkspaceEdit();
  for (const [uri, edits] of Object.entries(changes)) {
    edit.set(vscode.Uri.parse(uri), edits.map(toEdit));
  }
  return edit;
}

module.exports = {
  fromPosition, fromRange, toCompletion, toDiagnostic, toEdit, toHover, toLocation, toRange,
  toSymbol, toWorkspaceEdit,
};
