import { useSignal } from '@preact/signals';
import type { GitDiff } from '../wire.ts';
import { truncatePieces, type ColouredLines, type Piece } from '../coloured-lines.ts';
import { partsOf } from '../line-diff.ts';
import { InOrder } from './text-block.tsx';

const bitmap = /\.(?:png|jpe?g|gif|webp)$/i;
const drawing = /\.svg$/i;

/** Whether a file is an image without a text, by its name. */
export const isBitmap = (path: string): boolean => bitmap.test(path);

export const isImage = (path: string): boolean => isBitmap(path) || drawing.test(path);

interface ImageProps {
  readonly src: string;
  readonly label: string;
}

/** An image element runs no scripts, also not those of a drawing. */
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

/** Limits of a drawing, which may take minutes: characters, and elements that repeat parts. */
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

/** A file as an image. The agent has the bytes of the present version alone. */
export function FileImage({ path, address, versions }: FileImageProps) {
  if (!drawing.test(path)) return <Image src={address} label="Now" />;
  const { original = null, modified = null } = versions ?? {};
  return <Drawings original={original} modified={modified} />;
}

/** A drawing is shown when a person asks for it: only the browser knows how long it takes. */
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

/** A text of a file in the order of its characters, with a mark for each invisible one. */
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
  /** The line in colours, perhaps with more characters at its end. */
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

/** Line by its number, which starts at 1. */
export const lineAt = (
  lines: ColouredLines | undefined,
  number: number | undefined,
): readonly Piece[] | undefined => (number === undefined ? undefined : lines?.[number - 1]);
