export interface Piece {
  readonly text: string;
  /** Determines the colour; undefined for text without a colour. */
  readonly kind?: ColourKind | undefined;
}
export type ColourKind = 'keyword' | 'string' | 'comment' | 'number' | 'name';
export type ColouredLines = readonly (readonly Piece[])[];

/** Maximum characters of a text that is coloured. */
export const maxColoured = 100_000;

export interface ToColour {
  readonly path: string;
  readonly text: string;
}

export interface Colouring {
  /** Returns the whole text as pieces; undefined for an unknown language or for too many pieces. */
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
