const CM = await import("nicegui-codemirror");
let editor = null;
for (let tries = 0; tries < 100 && !editor; tries++) {
  editor = document.querySelector(".sql-editor .cm-editor");
  if (!editor) await new Promise(done => setTimeout(done, 50));
}
const view = CM.EditorView.findFromDOM(editor);
view.contentDOM.setAttribute("aria-label", "SQL");
window.sqlNames = window.sqlNames || {tables: {}, columns: [], names: []};
const complete = context => {
  const {tables, columns, names} = window.sqlNames;
  const scoped = context.matchBefore(/\w+\.\w*/);
  if (scoped) {
    const table = scoped.text.split(".")[0];
    return {from: scoped.from + table.length + 1, options: tables[table] || columns, validFor: /^\w*$/};
  }
  const word = context.matchBefore(/\w+/);
  if (!word && !context.explicit) return null;
  return {from: word ? word.from : context.pos, options: names.concat(columns), validFor: /^\w*$/};
};
const draft = CM.EditorView.updateListener.of(update => {
  if (update.docChanged) localStorage.setItem("vitalfew.sql.draft", update.state.doc.toString());
});
view.dispatch({effects: CM.StateEffect.appendConfig.of([
  draft, CM.EditorState.languageData.of(() => [{autocomplete: complete}])])});
const dark = () => document.body.classList.contains("body--dark");
new MutationObserver(() => emitEvent("sql-dark", dark())).observe(document.body, {attributeFilter: ["class"]});
let past = [];
try { past = JSON.parse(localStorage.getItem("vitalfew.sql.history")) || [] } catch {}
return {dark: dark(), draft: localStorage.getItem("vitalfew.sql.draft") || "", past};
