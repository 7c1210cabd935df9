import { signal } from '@preact/signals';

export interface SavedText {
  readonly name: string;
  readonly text: string;
}

const maxTexts = 50;
const maxTextBytes = 8 * 1024;
export const maxNameLength = 60;

const isSavedText = (value: unknown): value is SavedText =>
  typeof value === 'object' &&
  value !== null &&
  'name' in value &&
  typeof value.name === 'string' &&
  'text' in value &&
  typeof value.text === 'string';

/** Named texts of an owner, stored only in this browser. Works in browsers without storage too. */
export class SavedTexts {
  /** Undefined until the owner is known. */
  readonly items = signal<readonly SavedText[] | undefined>(undefined);
  readonly #kind: string;
  #key = '';

  constructor(kind: string) {
    this.#kind = kind;
  }

  open(owner: string): void {
    this.#key = `${this.#kind} of ${owner}`;
    this.items.value = this.#read();
    // The browser sends this event when another tab has changed the texts.
    addEventListener('storage', ({ key }) => {
      if (key === this.#key) this.items.value = this.#read();
    });
  }

  /** Saves a text, and replaces one with the same name. Returns the reason of a failure. */
  save(name: string, text: string): string | undefined {
    const bytes = new TextEncoder().encode(text).length;
    if (bytes > maxTextBytes)
      return `At most 8 KiB can be saved; these are ${Math.ceil(bytes / 1024)} KiB.`;
    const others = this.#read().filter((item) => item.name !== name);
    if (others.length >= maxTexts) return `${maxTexts} are saved. Remove one first.`;
    return this.#write([...others, { name, text }]);
  }

  remove(name: string): void {
    this.#write(this.#read().filter((item) => item.name !== name));
  }

  #read(): readonly SavedText[] {
    try {
      const stored: unknown = JSON.parse(localStorage.getItem(this.#key) ?? '[]');
      return Array.isArray(stored) ? stored.filter(isSavedText).slice(0, maxTexts) : [];
    } catch {
      return [];
    }
  }

  #write(items: readonly SavedText[]): string | undefined {
    try {
      localStorage.setItem(this.#key, JSON.stringify(items));
    } catch {
      return 'This browser stores nothing for this page.';
    }
    this.items.value = items;
    return undefined;
  }
}
