import type { Images } from '../images.ts';
import { Icon } from './icon.tsx';

export function Attachments({ images }: { readonly images: Images }) {
  const list = images.list.value;
  return (
    <div class="attachments">
      <label class="button small quiet">
        <Icon name="image" />
        Add image
        <input
          type="file"
          class="unseen"
          accept="image/*"
          multiple
          onChange={(event) => {
            const input = event.currentTarget;
            void images.attach([...(input.files ?? [])]).then(() => (input.value = ''));
          }}
        />
      </label>
      {list.map((image) => (
        <span key={image.url} class="attachment">
          <img src={image.url} alt={image.name} />
          <button
            type="button"
            class="small quiet"
            aria-label={`Remove ${image.name}`}
            onClick={() => images.detach(image)}
          >
            <Icon name="close" />
          </button>
        </span>
      ))}
      <span class="quiet-text" role="status">
        {images.isReading.value
          ? 'Reading…'
          : list.some(({ isScaled }) => isScaled) && 'Scaled down to fit.'}
      </span>
    </div>
  );
}
