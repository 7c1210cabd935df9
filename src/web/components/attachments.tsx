import { usePage } from '../page-state.ts';
import { Icon } from './icon.tsx';

/** The images of the message, and the button that adds one. */
export function Attachments() {
  const { draft } = usePage();
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
            void draft.attach([...(input.files ?? [])]).then(() => {
              input.value = '';
            });
          }}
        />
      </label>
      {draft.images.value.map((image) => (
        <span key={image.url} class="attachment">
          <img src={image.url} alt={image.name} />
          <button
            type="button"
            class="small quiet"
            aria-label={`Remove ${image.name}`}
            onClick={() => draft.detach(image)}
          >
            <Icon name="close" />
          </button>
        </span>
      ))}
    </div>
  );
}
