import { signal, type Signal } from '@preact/signals';
import { api, ApiError, messageOf } from './api.ts';
import { contentOf, Images } from './images.ts';
import { maxCostOf } from './max-cost.ts';
import type { Store } from './store.ts';
import type { StartTask } from './wire.ts';

/** Maximum characters of all images of a start. The gateway accepts bodies of up to 1 MiB. */
const maxImageCharacters = 900_000;

/** A new idempotency key. Works without a secure context, unlike `crypto.randomUUID`. */
export const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');

/** The request of an earlier start. Rejects if the start does not exist any more. */
export async function requestOf(taskId: string): Promise<StartTask['request']> {
  const path = '/api/v1/app-conversations/start-tasks';
  const [task] = await api.get<readonly (StartTask | null)[]>(path, { ids: taskId });
  if (task == null) throw new ApiError({ detail: 'The earlier start does not exist any more.' });
  return task.request;
}

export const draftFields = ['repository', 'branch', 'template', 'model'] as const;
export type DraftField = (typeof draftFields)[number];

const requestFields = {
  message: 'initial_message',
  repository: 'selected_repository',
  branch: 'selected_branch',
  template: 'sandbox_spec_id',
  model: 'llm_model',
  maxCost: 'max_cost',
} as const;

export class Draft {
  readonly message = signal('');
  readonly repository = signal('');
  readonly branch = signal('');
  readonly template = signal('');
  readonly model = signal('');
  /** Maximum cost in US dollars, as text; empty: none. */
  readonly maxCost = signal('');
  readonly isSending = signal(false);
  readonly problem = signal<string | undefined>(undefined);
  readonly images = new Images(maxImageCharacters, this.problem);
  /** Problems of single fields, by the name of the field. */
  readonly fieldProblems = signal<Readonly<Record<string, string>>>({});
  readonly #store: Store;
  /** The last request with its idempotency key, so that a retry starts nothing twice. */
  #sent = { text: '', key: '' };

  constructor(store: Store) {
    this.#store = store;
  }

  field(name: DraftField): Signal<string> {
    return this[name];
  }

  /** Replaces the text if it is a saved message; otherwise appends `saved` to the user's text. */
  insert(saved: string, others: readonly { readonly text: string }[]): void {
    const text = this.message.value.trim();
    const isOwn = text !== '' && others.every((other) => other.text !== text);
    this.message.value = isOwn ? `${text}\n\n${saved}` : saved;
  }

  /** Reads the request of an earlier start by REST, and fills the form with it. */
  async fillFrom(taskId: string): Promise<void> {
    this.problem.value = undefined;
    try {
      const request = await requestOf(taskId);
      const content = request.initial_message?.content ?? [];
      this.message.value = content
        .flatMap((part) => (part.type === 'text' ? [part.text] : []))
        .join('\n');
      this.images.list.value = content
        .flatMap((part) => (part.type === 'image' ? part.image_urls : []))
        .map((url, index) => ({ name: `Image ${index + 1}`, url }));
      this.repository.value = request.selected_repository ?? '';
      this.branch.value = request.selected_branch ?? '';
      this.template.value = request.sandbox_spec_id ?? '';
      this.model.value = request.llm_model ?? '';
      this.maxCost.value = request.max_cost?.toString() ?? '';
    } catch (error) {
      this.problem.value = `The earlier start can not be read: ${messageOf(error)}`;
    }
  }

  /** Returns whether a conversation was started. */
  async send(): Promise<boolean> {
    if (this.isSending.value) return false;
    this.isSending.value = true;
    this.problem.value = undefined;
    await this.images.ready;
    if (this.#isEmpty()) this.problem.value ??= 'Say what the agent should do, or attach an image.';
    // After a problem, an image of the message may be missing.
    if (this.problem.value !== undefined) {
      this.isSending.value = false;
      return false;
    }
    this.fieldProblems.value = {};
    const cost = maxCostOf(this.maxCost.value);
    if (cost.problem !== undefined) {
      this.fieldProblems.value = { maxCost: cost.problem };
      this.isSending.value = false;
      return false;
    }
    const request = this.#request(cost.value);
    const text = JSON.stringify(request);
    if (text !== this.#sent.text) this.#sent = { text, key: newKey() };
    try {
      const task = await api.post<StartTask>('/api/v1/app-conversations', request, {
        'idempotency-key': this.#sent.key,
      });
      this.#store.putTask(task);
      this.#store.settle();
      this.#sent = { text: '', key: '' };
      this.message.value = '';
      this.images.list.value = [];
      return true;
    } catch (error) {
      this.#refused(error);
      return false;
    } finally {
      this.isSending.value = false;
    }
  }

  #isEmpty(): boolean {
    return contentOf(this.message.value, this.images.list.value).length === 0;
  }

  #request(maxCost: number | undefined): Readonly<Record<string, unknown>> {
    const chosen = draftFields.flatMap((name) => {
      const value = this.field(name).value.trim();
      return value === '' ? [] : [[requestFields[name], value] as const];
    });
    return {
      initial_message: { content: contentOf(this.message.value.trim(), this.images.list.value) },
      ...Object.fromEntries(chosen),
      ...(maxCost === undefined ? {} : { [requestFields.maxCost]: maxCost }),
    };
  }

  #refused(error: unknown): void {
    this.problem.value = messageOf(error);
    const details = error instanceof ApiError ? (error.problem.errors ?? []) : [];
    this.fieldProblems.value = Object.fromEntries(
      Object.entries(requestFields).flatMap(([name, field]) => {
        const detail = details.find(({ path }) => path.startsWith(`body.${field}`));
        return detail === undefined ? [] : [[name, detail.message]];
      }),
    );
  }
}
