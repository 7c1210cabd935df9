import { plainText } from '../../resources/plain-text.ts';

/** Maximum characters of a text of a resource in the overview. */
const maxLength = 500;

/** A text of a resource, bounded and without characters that change the direction of text. */
export const shortText = (text: string): string => plainText(text, maxLength);
