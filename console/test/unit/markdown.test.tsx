import assert from "node:assert/strict";
import { test } from "node:test";
import type { ComponentChildren, FunctionComponent, VNode } from "preact";
import { Markdown, safeLink } from "../../src/ui/markdown.tsx";

const ELEMENTS = [
  "a",
  "blockquote",
  "br",
  "code",
  "del",
  "div",
  "em",
  "hr",
  "input",
  "li",
  "ol",
  "p",
  "pre",
  "strong",
  "table",
  "tbody",
  "td",
  "th",
  "thead",
  "tr",
  "ul",
];
const ATTRIBUTES = [
  "href",
  "title",
  "target",
  "rel",
  "class",
  "role",
  "aria-level",
  "aria-label",
  "tabIndex",
  "start",
  "type",
  "checked",
  "disabled",
  "children",
];

interface Rendered {
  text: string;
  elements: string[];
  links: string[];
}

/** Renders without a DOM, and checks that nothing but harmless elements and attributes comes out. */
function render(children: ComponentChildren, out: Rendered = { text: "", elements: [], links: [] }): Rendered {
  if (Array.isArray(children)) for (const child of children) render(child, out);
  else if (typeof children === "string" || typeof children === "number") out.text += children;
  else if (children && typeof children === "object") {
    const { type, props } = children as VNode<Record<string, ComponentChildren>>;
    if (typeof type === "function") return render((type as FunctionComponent)(props), out);
    assert.ok(ELEMENTS.includes(type), type);
    for (const name of Object.keys(props)) assert.ok(ATTRIBUTES.includes(name), name);
    out.elements.push(type);
    if (type === "a") {
      out.links.push(String(props.href));
      assert.equal(props.rel, "noopener noreferrer nofollow");
    }
    render(props.children, out);
  }
  return out;
}

const markdown = (text: string) => render(<Markdown text={text} />);

test("the usual parts become elements", () => {
  const { text, elements, links } = markdown(
    "# Title\n\nSome **bold** and `code`, [a link](https://example.com/a).\n\n1. one\n2. two\n\n| a |\n|---|\n| b |\n\n```js\n<b>\n```\n\n> said",
  );
  assert.equal(text, "TitleSome bold and code, a link.onetwoab<b>said");
  assert.deepEqual(links, ["https://example.com/a"]);
  for (const name of ["strong", "code", "ol", "table", "pre", "blockquote"]) assert.ok(elements.includes(name), name);
});

test("attacks stay text", () => {
  const attacks = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:msgbox(1))",
    "[x](file:///etc/passwd)",
    "[x](/v1/runs)",
    "<svg><a xlink:href='javascript:alert(1)'>x</a></svg>",
    "<javascript:alert(1)>",
    "- [ ] <iframe src=https://evil.example></iframe>",
    "| <b onmouseover=alert(1)>x</b> |\n|---|",
    "[x]: javascript:alert(1)\n\n[x]",
    '<a href="https://evil.example" onclick="alert(1)">x</a>',
  ];
  for (const attack of attacks) assert.deepEqual(markdown(attack).links, [], attack);
});

test("pictures are links, never pictures", () => {
  const { links, text } = markdown("![pixel](https://evil.example/p.png) ![x](javascript:alert(1))");
  assert.deepEqual(links, ["https://evil.example/p.png"]);
  assert.ok(text.includes("pixel"));
});

test("characters that hide text are shown", () => {
  assert.ok(markdown("a\u202eb").text.includes("⟨U+202E⟩"));
  assert.ok(markdown("AT&amp;T &lt;b&gt;").text.includes("AT&T <b>"));
});

test("a text above the limit stays plain", () => {
  const { elements } = markdown(`**${"x".repeat(300_000)}**`);
  assert.deepEqual(elements, ["pre"]);
});

test("only harmless links are links", () => {
  assert.equal(safeLink("https://example.com"), "https://example.com/");
  assert.equal(safeLink("mailto:a@example.com"), "mailto:a@example.com");
  assert.equal(safeLink("ftp://example.com"), undefined);
  assert.equal(safeLink("//example.com"), undefined);
});
