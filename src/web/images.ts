import { signal, type Signal } from '@preact/signals';

export interface Attachment {
  readonly name: string;
  /** The image as a data URL. */
  readonly url: string;
  /** Whether the image was scaled down to a smaller JPEG. */
  readonly isScaled?: boolean;
}

/** Maximum pixels of the longer side. Models scale larger images down themselves. */
const maxSide = 1_568;
/** Maximum characters of one data URL that the gateway accepts. */
const maxUrlCharacters = 262_144;
/** Minimum characters of a data URL. A smaller image would show no details. */
const minUrlCharacters = 8_000;
const maxImages = 20;

const readAsDataUrl = (file: File): Promise<string> =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(typeof reader.result === 'string' ? reader.result : '');
    reader.onerror = () => reject(new Error(`${file.name} can not be read.`));
    reader.readAsDataURL(file);
  });

/**
 * The image as a JPEG whose data URL has at most `maxCharacters`. Every browser writes JPEG, and
 * every model reads it. Rejects if the browser can not read the file.
 */
async function scaledDown(file: File, maxCharacters: number): Promise<string> {
  const bitmap = await createImageBitmap(file);
  const canvas = document.createElement('canvas');
  for (let side = maxSide; ; side *= 0.8) {
    const factor = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
    canvas.width = Math.ceil(bitmap.width * factor);
    canvas.height = Math.ceil(bitmap.height * factor);
    const context = canvas.getContext('2d');
    if (context === null) throw new Error('The browser has no canvas.');
    context.imageSmoothingQuality = 'high';
    // JPEG has no transparency: transparent pixels would become black.
    context.fillStyle = '#fff';
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    const url = canvas.toDataURL('image/jpeg', 0.8);
    if (url.length <= maxCharacters) return url;
  }
}

/** The content objects of a message; none for an empty message. */
export const contentOf = (text: string, images: readonly Attachment[]): readonly object[] => [
  ...(text.trim() === '' ? [] : [{ type: 'text', text }]),
  ...(images.length === 0 ? [] : [{ type: 'image', image_urls: images.map(({ url }) => url) }]),
];

/** Images of one message. The gateway stores them in the message, so their size is limited. */
export class Images {
  readonly list = signal<readonly Attachment[]>([]);
  readonly isReading = signal(false);
  /** Resolves when all files are read. Never rejects. */
  ready: Promise<void> = Promise.resolve();
  readonly #maxCharacters: number;
  readonly #problem: Signal<string | undefined>;

  /** `maxCharacters` limits all data URLs together. `problem` gets the reasons of refused files. */
  constructor(maxCharacters: number, problem: Signal<string | undefined>) {
    this.#maxCharacters = maxCharacters;
    this.#problem = problem;
  }

  /** Attaches images after those of earlier calls. */
  attach(files: readonly File[]): Promise<void> {
    this.ready = this.ready.then(async () => {
      this.isReading.value = true;
      this.#problem.value = undefined;
      for (const [index, file] of files.entries()) await this.#add(file, files.length - index);
      this.isReading.value = false;
    });
    return this.ready;
  }

  detach(image: Attachment): void {
    this.list.value = this.list.value.filter((other) => other !== image);
  }

  /** Adds an image. Each file gets an equal share of the free characters, and a part stays free. */
  async #add(file: File, filesLeft: number): Promise<void> {
    const used = this.list.value.reduce((sum, { url }) => sum + url.length, 0);
    const share = Math.min(maxUrlCharacters, (this.#maxCharacters - used) / (filesLeft + 0.5));
    const { name } = file;
    if (share < minUrlCharacters || this.list.value.length === maxImages) {
      const kilobytes = Math.round((this.#maxCharacters * 3) / 4_000);
      this.#problem.value = `There is no room for ${name}: a message has ${maxImages} images and ${kilobytes} KB of them at most.`;
      return;
    }
    try {
      const fits =
        /^image\/(png|jpeg|gif|webp)$/.test(file.type) && (file.size * 4) / 3 + 32 < share;
      const url = await (fits ? readAsDataUrl(file) : scaledDown(file, share));
      this.list.value = [...this.list.value, { name, url, isScaled: !fits }];
    } catch {
      this.#problem.value = `${name} can not be read as an image.`;
    }
  }
}
