import { useSignal } from '@preact/signals';
import type { GitDiff } from '../wire.ts';

const bitmap = /\.(?:png|jpe?g|gif|webp)$/i;
const drawing = /\.svg$/i;

/** Whether a file is shown as an image too, by its name. */
export const isImage = (path: string): boolean => bitmap.test(path) || drawing.test(path);

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

const ofText = (text: string): string => `data:image/svg+xml,${encodeURIComponent(text)}`;

interface FileImageProps {
  readonly path: string;
  /** The address of the bytes of the file as it is. */
  readonly address: string;
  readonly versions?: GitDiff;
}

/** A file as an image. The agent has the bytes of the present version alone. */
export function FileImage({ path, address, versions }: FileImageProps) {
  if (!drawing.test(path)) return <Image src={address} label="Now" />;
  const { original = null, modified = null } = versions ?? {};
  return (
    <div class="file-images">
      {original !== null && original !== '' && <Image src={ofText(original)} label="Before" />}
      {modified !== null && modified !== '' && <Image src={ofText(modified)} label="Now" />}
    </div>
  );
}
