// Colours for code, loaded with the first block that wants them; each language on its own.
import highlighter from "../vendor/highlight/core.js";

const ALIASES = {
  js: "javascript", mjs: "javascript", jsx: "javascript", node: "javascript", ts: "typescript", tsx: "typescript",
  py: "python", python3: "python", sh: "bash", shell: "bash", zsh: "bash", console: "bash", yml: "yaml",
  html: "xml", svg: "xml", rs: "rust", golang: "go", "c++": "cpp", h: "c", hpp: "cpp", md: "markdown",
  patch: "diff", toml: "ini", "c#": "csharp", cs: "csharp", rb: "ruby", kt: "kotlin", docker: "dockerfile",
  postgresql: "sql", sqlite: "sql", mysql: "sql", jsonc: "json",
};
const LANGUAGES = new Set([
  "bash", "c", "cpp", "csharp", "css", "diff", "dockerfile", "go", "ini", "java", "javascript", "json", "kotlin",
  "markdown", "php", "python", "ruby", "rust", "sql", "typescript", "xml", "yaml",
]);

/** A tree of strings and `{class, children}`; null for a language that isn't known. */
export async function highlight(code, name) {
  const language = ALIASES[name] ?? name;
  if (!LANGUAGES.has(language)) return null;
  if (!highlighter.getLanguage(language)) {
    const { default: grammar } = await import(`../vendor/highlight/languages/${language}.js`);
    highlighter.registerLanguage(language, grammar);
  }
  // Its tree instead of its HTML: elements are made by the page, never out of a string.
  return highlighter.highlight(code, { language })._emitter.rootNode.children.map(branch);
}

function branch(node) {
  if (typeof node === "string") return node;
  const scope = (node.scope ?? "").split(".")[0].replaceAll("_", "-");
  return { class: scope ? `hl-${scope}` : "", children: node.children.map(branch) };
}
