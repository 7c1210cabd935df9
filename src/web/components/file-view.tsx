import { useSignal } from '@preact/signals';
import type { GitDiff } from '../wire.ts';
import { truncatePieces, type ColouredLines, type Piece } from '../coloured-lines.ts';
import { partsOf } from '../line-diff.ts';
import { InOrder } from './text-block.tsx';

const bitmap = /\.(?:png|jpe?g|gif|webp)$/i;
const drawing = /\.svg$/i;

export const isBitmap = (path: string): boolean => bitmap.test(path);

export const isImage = (path: string): boolean => isBitmap(path) || drawing.test(path);

interface ImageProps {
  readonly src: string;
  readonly label: string;
}

/** An image element runs no scripts, not even those of an SVG. */
function Image({ src, label }: ImageProps) {
  const isBroken = useSignal(false);
  return (
    <figure class="file-image">
      <figcaption>{label}</figcaption>
      {isBroken.value ? (
        <span class="quiet-text">
          The image can not be shown: it is broken, larger than 5 MiB, or a pause has not kept it.
        </span>
      ) : (
        <img src={src} alt={label} onError={() => (isBroken.value = true)} />
      )}
    </figure>
  );
}

/** Maximum length of a shown SVG, which may take minutes to render, as one that repeats parts. */
const maxDrawing = 100_000;
const repeats = /<(?:\w+:)?use\b|<!ENTITY|<!DOCTYPE|<(?:\w+:)?pattern\b|<(?:\w+:)?filter\b/i;

interface DrawingProps {
  readonly text: string | null;
  readonly label: string;
}

function Drawing({ text, label }: DrawingProps) {
  if (text === null || text === '') return null;
  if (text.length > maxDrawing || repeats.test(text))
    return (
      <p class="quiet-text">
        {label}: the drawing is too large, or repeats parts, to show it here.
      </p>
    );
  const src = `data:image/svg+xml,${encodeURIComponent(text.toWellFormed())}`;
  return <Image src={src} label={label} />;
}

interface FileImageProps {
  readonly path: string;
  readonly address: string;
  readonly versions?: GitDiff;
}

/** A file as an image. For a bitmap, the agent has only the current version. */
export function FileImage({ path, address, versions }: FileImageProps) {
  if (!drawing.test(path)) return <Image src={address} label="Now" />;
  const { original = null, modified = null } = versions ?? {};
  return <Drawings original={original} modified={modified} />;
}

/** Shown after a click, because only the browser knows how long an SVG takes to render. */
function Drawings({ original, modified }: GitDiff) {
  const isShown = useSignal(false);
  if (!isShown.value)
    return (
      <button type="button" class="small" onClick={() => (isShown.value = true)}>
        Show the drawing
      </button>
    );
  return (
    <div class="file-images">
      <Drawing text={original} label="Before" />
      <Drawing text={modified} label="Now" />
    </div>
  );
}

/** A text of a file in the order of its characters, with invisible characters marked. */
export const SourceText = ({ children }: { readonly children: string }) => (
  <>
    {partsOf(children).map((part, index) =>
      index % 2 === 1 ? (
        <span key={index} class="unseen-character">
          {part}
        </span>
      ) : (
        part !== '' && <InOrder key={index}>{part}</InOrder>
      ),
    )}
  </>
);

const Text = ({ children }: { readonly children: string }) =>
  /^[\t -~]*$/.test(children) ? <>{children}</> : <SourceText>{children}</SourceText>;

interface SourceLineProps {
  readonly text: string;
  /** The coloured pieces of the line. They may be longer than `text`, which is truncated. */
  readonly pieces?: readonly Piece[] | undefined;
}

export const SourceLine = ({ text, pieces }: SourceLineProps) =>
  pieces === undefined ? (
    <Text>{text}</Text>
  ) : (
    <>
      {truncatePieces(pieces, text.length).map((piece, index) =>
        piece.kind === undefined ? (
          <Text key={index}>{piece.text}</Text>
        ) : (
          <span key={index} class={`code-${piece.kind}`}>
            <Text>{piece.text}</Text>
          </span>
        ),
      )}
    </>
  );

/** The line with this number; numbers start at 1. */
export const lineAt = (
  lines: ColouredLines | undefined,
  number: number | undefined,
): readonly Piece[] | undefined => (number === undefined ? undefined : lines?.[number - 1]);
