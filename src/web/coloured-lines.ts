export interface Piece {
  readonly text: string;
  /** Kind that determines the colour; undefined: none. */
  readonly kind?: ColourKind | undefined;
}
export type ColourKind = 'keyword' | 'string' | 'comment' | 'number' | 'name';
export type ColouredLines = readonly (readonly Piece[])[];

/** Maximum characters of a text that gets colours. */
export const maxColoured = 100_000;

export interface ToColour {
  readonly path: string;
  readonly text: string;
}

export interface Colouring {
  /** Lines in colours, character for character; undefined: unknown language, or too many pieces. */
  readonly colouredLines: (path: string, text: string) => ColouredLines | undefined;
}

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
