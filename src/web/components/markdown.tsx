import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { markdownTokens, safeAddress, type Token, type Tokens } from '../markdown.ts';
import { TextBlock } from './text-block.tsx';

const Parts = ({ tokens = [] }: { readonly tokens?: readonly Token[] | undefined }) => (
  <>
    {tokens.map((token, index) => (
      <Part key={index} token={token} />
    ))}
  </>
);

/** A link from an agent may lead anywhere, so the opened page gets no referrer and no opener. */
function Link({ href, children }: { readonly href: string; readonly children: ComponentChildren }) {
  const address = safeAddress(href);
  if (address === undefined) return <>{children}</>;
  return (
    <a href={address} target="_blank" rel="noopener noreferrer" title={address}>
      {children}
    </a>
  );
}

function List({ token }: { readonly token: Tokens.List }) {
  const items = token.items.map((item, index) => (
    <li key={index}>
      {item.task && (item.checked === true ? '☑ ' : '☐ ')}
      <Parts tokens={item.tokens} />
    </li>
  ));
  if (!token.ordered) return <ul>{items}</ul>;
  return <ol {...(typeof token.start === 'number' ? { start: token.start } : {})}>{items}</ol>;
}

const Table = ({ token }: { readonly token: Tokens.Table }) => (
  <div class="table" tabIndex={0} role="group" aria-label="Table">
    <table>
      <thead>
        <tr>
          {token.header.map((cell, index) => (
            <th key={index}>
              <Parts tokens={cell.tokens} />
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {token.rows.map((row, index) => (
          <tr key={index}>
            {row.map((cell, column) => (
              <td key={column}>
                <Parts tokens={cell.tokens} />
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);

/** One token as an element. HTML and unknown kinds of tokens are shown as text. */
function Part({ token }: { readonly token: Token }) {
  const part = token as Tokens.Generic;
  const inner = <Parts tokens={part.tokens} />;
  switch (token.type) {
    case 'space':
    case 'def':
    case 'checkbox':
      return null;
    case 'paragraph':
      return <p>{inner}</p>;
    case 'heading':
      return (
        <p>
          <strong>{inner}</strong>
        </p>
      );
    case 'code':
      return <TextBlock label="Code">{part['text']}</TextBlock>;
    case 'codespan':
      return <code>{part['text']}</code>;
    case 'strong':
      return <strong>{inner}</strong>;
    case 'em':
      return <em>{inner}</em>;
    case 'del':
      return <del>{inner}</del>;
    case 'br':
      return <br />;
    case 'hr':
      return <hr />;
    case 'blockquote':
      return <blockquote>{inner}</blockquote>;
    case 'list':
      return <List token={token as Tokens.List} />;
    case 'table':
      return <Table token={token as Tokens.Table} />;
    case 'link':
      return <Link href={(token as Tokens.Link).href}>{inner}</Link>;
    // An image is shown as a link, because loading it would send a request to another host.
    case 'image':
      return <Link href={(token as Tokens.Image).href}>{part['text'] || part.raw}</Link>;
    case 'text':
    case 'escape':
      return part.tokens === undefined ? <>{part['text']}</> : inner;
    default:
      return <>{part.raw}</>;
  }
}

/** A text of an agent or a user as Markdown. Creates only elements and text nodes, never HTML. */
export function Markdown({ text }: { readonly text: string }) {
  const tokens = useMemo(() => markdownTokens(text), [text]);
  if (tokens === undefined) return <div class="message-text plain">{text}</div>;
  return (
    <div class="message-text">
      <Parts tokens={tokens} />
    </div>
  );
}
