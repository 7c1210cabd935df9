import { useSignal } from '@preact/signals';
import { maxNameLength, type SavedTexts } from '../saved-texts.ts';
import { Icon } from './icon.tsx';

interface SavedListProps {
  readonly saved: SavedTexts;
  readonly noun: string;
  /** The text that can be saved; empty if there is none. */
  readonly text: string;
  readonly onChoose: (text: string) => void;
}

/** Saved texts by name, with buttons to choose, remove and save one. */
export function SavedList({ saved, noun, text, onChoose }: SavedListProps) {
  /** The text of the name field; undefined if the field is closed. */
  const name = useSignal<string | undefined>(undefined);
  const problem = useSignal<string | undefined>(undefined);
  const items = saved.items.value;
  const isNew = text !== '' && items?.every((item) => item.text !== text) === true;
  if (items === undefined || (items.length === 0 && !isNew)) return null;
  const close = () => {
    name.value = undefined;
    problem.value = undefined;
  };
  const save = () => {
    const given = name.peek()?.trim() ?? '';
    problem.value = given === '' ? `Name the ${noun}.` : saved.save(given, text);
    if (problem.peek() === undefined) close();
  };
  return (
    <div
      class="saved"
      {...(items.length === 0 ? {} : { role: 'group', 'aria-label': `Saved ${noun}s` })}
    >
      {items.map((item) => (
        <span key={item.name}>
          <button
            type="button"
            class="small"
            title={item.text}
            aria-pressed={item.text === text}
            onClick={() => {
              close();
              onChoose(item.text);
            }}
          >
            {item.name}
          </button>
          <button
            type="button"
            class="small quiet"
            aria-label={`Remove the saved ${noun} ${item.name}`}
            onClick={() => saved.remove(item.name)}
          >
            <Icon name="close" />
          </button>
        </span>
      ))}
      {isNew && name.value === undefined && (
        <button type="button" class="small quiet" onClick={() => (name.value = '')}>
          Save {noun}…
        </button>
      )}
      {isNew && name.value !== undefined && (
        <>
          <input
            ref={(input) => input?.focus()}
            aria-label={`Name of the ${noun}`}
            placeholder="Name"
            maxLength={maxNameLength}
            value={name.value}
            onInput={(event) => (name.value = event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === 'Escape') close();
              if (event.key !== 'Enter') return;
              event.preventDefault();
              save();
            }}
          />
          <button type="button" class="small" onClick={save}>
            Save
          </button>
        </>
      )}
      {isNew && problem.value !== undefined && (
        <span class="problem" role="alert">
          {problem}
        </span>
      )}
    </div>
  );
}
