import { truncatePieces, type ColouredLines, type Piece } from '../coloured-lines.ts';
import { partsOf } from '../line-diff.ts';
import { InOrder } from './text-block.tsx';

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

/** Most texts need no element of their own. */
const isPlain = (text: string): boolean => /^[\t -~]*$/.test(text);

const Text = ({ children }: { readonly children: string }) =>
  isPlain(children) ? <>{children}</> : <SourceText>{children}</SourceText>;

interface SourceLineProps {
  readonly text: string;
  /** The same line in colours, maybe with further characters at its end. */
  readonly pieces?: readonly Piece[] | undefined;
}

/** A line of a file, in colours where they are known. */
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

/** A line by its number from 1. */
export const lineAt = (
  lines: ColouredLines | undefined,
  number: number | undefined,
): readonly Piece[] | undefined => (number === undefined ? undefined : lines?.[number - 1]);
