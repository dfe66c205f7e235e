// Markdown of agents as elements. Raw HTML stays text, pictures become links, and only harmless links are links.
import { marked, type Token, type Tokens } from "marked";
import type { ComponentChildren } from "preact";
import { visible } from "../model/ansi.ts";

const LONGEST = 256 * 1024;
const SCHEMES = ["http:", "https:", "mailto:"];

/** The address of a link, or undefined where it is not safe to follow. */
export function safeLink(address: string): string | undefined {
  const url = URL.parse(address.trim());
  return url && SCHEMES.includes(url.protocol) ? url.href : undefined;
}

// The lexer does not decode references such as `&amp;`.
const REFERENCES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };
const unescape = (text: string) =>
  visible(text.replace(/&(amp|lt|gt|quot|#39);/g, (whole, name: string) => REFERENCES[name] ?? whole));

function Link({ address, children }: { address: string; children: ComponentChildren }) {
  const url = safeLink(address);
  return url ? (
    <a href={url} title={url} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  ) : (
    <>{children}</>
  );
}

const inline = (tokens: Token[] | undefined): ComponentChildren =>
  tokens?.map((token, index) => <Inline key={index} token={token} />);

function Inline({ token }: { token: Token }): ComponentChildren {
  switch (token.type) {
    case "strong":
      return <strong>{inline(token.tokens)}</strong>;
    case "em":
      return <em>{inline(token.tokens)}</em>;
    case "del":
      return <del>{inline(token.tokens)}</del>;
    case "codespan":
      return <code>{unescape((token as Tokens.Codespan).text)}</code>;
    case "br":
      return <br />;
    case "link":
      return <Link address={(token as Tokens.Link).href}>{inline(token.tokens)}</Link>;
    case "image": {
      const { href, text } = token as Tokens.Image;
      return <Link address={href}>🖼 {unescape(text || href)}</Link>;
    }
    case "text":
      return token.tokens ? inline(token.tokens) : unescape((token as Tokens.Text).text);
    case "escape":
      return unescape((token as Tokens.Escape).text);
    default:
      return unescape(token.raw);
  }
}

function Item({ item }: { item: Tokens.ListItem }) {
  return (
    <li>
      {item.task && <input type="checkbox" checked={item.checked ?? false} disabled aria-label={item.text} />}
      {item.tokens
        .filter(({ type }) => type !== "checkbox")
        .map((token, index) =>
          token.type === "text" ? <Inline key={index} token={token} /> : <Block key={index} token={token} />,
        )}
    </li>
  );
}

function Block({ token }: { token: Token }): ComponentChildren {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return (
        <p
          class={`h h${(token as Tokens.Heading).depth}`}
          role="heading"
          aria-level={Math.min(6, (token as Tokens.Heading).depth + 2)}
        >
          {inline(token.tokens)}
        </p>
      );
    case "paragraph":
      return <p>{inline(token.tokens)}</p>;
    case "code":
      return (
        <pre class="code" tabIndex={0}>
          {visible((token as Tokens.Code).text)}
        </pre>
      );
    case "blockquote":
      return (
        <blockquote>
          {(token as Tokens.Blockquote).tokens.map((child, index) => (
            <Block key={index} token={child} />
          ))}
        </blockquote>
      );
    case "hr":
      return <hr />;
    case "list": {
      const { ordered, start, items } = token as Tokens.List;
      const all = items.map((item, index) => <Item key={index} item={item} />);
      return ordered ? <ol start={Number(start) || 1}>{all}</ol> : <ul>{all}</ul>;
    }
    case "table": {
      const { header, rows } = token as Tokens.Table;
      return (
        <div class="scroll" tabIndex={0} role="group" aria-label="table">
          <table>
            <thead>
              <tr>
                {header.map((cell, index) => (
                  <th key={index}>{inline(cell.tokens)}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row, index) => (
                <tr key={index}>
                  {row.map((cell, column) => (
                    <td key={column}>{inline(cell.tokens)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    }
    default:
      return (
        <p>
          <Inline token={token} />
        </p>
      );
  }
}

export function Markdown({ text }: { text: string }) {
  if (text.length > LONGEST) return <pre class="plain">{visible(text)}</pre>;
  return (
    <div class="markdown">
      {marked.lexer(text).map((token, index) => (
        <Block key={index} token={token} />
      ))}
    </div>
  );
}
