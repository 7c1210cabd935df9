/** A part of a line in one colour. */
export interface Piece {
  readonly text: string;
  /** The kind that gives it its colour; undefined: none. */
  readonly kind?: ColourKind | undefined;
}
export type ColourKind = 'keyword' | 'string' | 'comment' | 'number' | 'name';
/** The lines of a text, each in pieces. */
export type ColouredLines = readonly (readonly Piece[])[];

/** Maximum characters of a text that gets colours. */
export const maxColoured = 100_000;

/** A text for the worker that finds colours. */
export interface ToColour {
  readonly path: string;
  readonly text: string;
}

/** The module that finds colours. */
export interface Colouring {
  /**
   * Lines of a text in colours, whose pieces have the characters of the text exactly; undefined
   * where the language is unknown, or there are too many pieces.
   */
  readonly colouredLines: (path: string, text: string) => ColouredLines | undefined;
}

/** The first characters of a line in pieces. */
export function truncatePieces(pieces: readonly Piece[], length: number): readonly Piece[] {
  const kept: Piece[] = [];
  let left = length;
  for (const piece of pieces) {
    if (left <= 0) break;
    kept.push({ ...piece, text: piece.text.slice(0, left) });
    left -= piece.text.length;
  }
  return kept;
}
