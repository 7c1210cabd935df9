import { signal } from '@preact/signals';
import { api, ApiError, messageOf } from './api.ts';
import type { ConversationPaths } from './row.ts';
import { Refresher } from './reading.ts';
import type { GitChange, GitDiff } from './wire.ts';

export const absolutePath = (folder: string, path: string): string =>
  `${folder.replace(/\/+$/, '')}/${path}`;

/** The URL of the content of a file; `conversation` is the URL of the conversation. */
export const contentAddress = (conversation: string, absolute: string): string =>
  `${conversation}/file/content?file_path=${encodeURIComponent(absolute)}`;

export class ChangedFiles {
  /** Undefined until the first read has succeeded. */
  readonly list = signal<readonly GitChange[] | undefined>(undefined);
  readonly isReading = signal(false);
  readonly problem = signal<string | undefined>(undefined);
  /** Why no changes can be read now, for example because none are stored; otherwise undefined. */
  readonly absence = signal<string | undefined>(undefined);
  /** Number of reads of the list. File versions from before the latest read are outdated. */
  readonly revision = signal(0);
  readonly #path: string;
  readonly #folder: string;
  readonly #isShared: boolean;
  readonly #refresher = new Refresher(() => this.#read());

  /** `folder` is the absolute path of the working folder. */
  constructor({ base, isShared }: ConversationPaths, folder: string) {
    this.#path = base;
    this.#isShared = isShared;
    this.#folder = folder;
  }

  /** Reads the list. A call during a read causes one more read. Never rejects. */
  refresh(): Promise<void> {
    return this.#refresher.run();
  }

  /** Both versions of a file of the list. Rejects with an ApiError. */
  versionsOf(path: string, aborting: AbortSignal): Promise<GitDiff> {
    const absolute = absolutePath(this.#folder, path);
    return api.get<GitDiff>(`${this.#path}/git/diff`, { path: absolute }, aborting);
  }

  /** URL of the content of a file; undefined for a shared conversation. */
  contentOf(path: string): string | undefined {
    if (this.#isShared) return undefined;
    return contentAddress(this.#path, absolutePath(this.#folder, path));
  }

  /** After a failure, the list of an earlier read remains. */
  async #read(): Promise<void> {
    this.isReading.value = true;
    try {
      this.list.value = await api.get(`${this.#path}/git/changes`, { path: this.#folder });
      this.revision.value += 1;
      this.problem.value = undefined;
      this.absence.value = undefined;
    } catch (error) {
      const absence = error instanceof ApiError ? absences[error.problem.code ?? ''] : undefined;
      this.absence.value = absence;
      this.problem.value = absence === undefined ? messageOf(error) : undefined;
    } finally {
      this.isReading.value = false;
    }
  }
}

const absences: Readonly<Record<string, string>> = {
  'wrong-state':
    'The changes are read from the agent while its sandbox runs, and no pause has stored them.',
  'archive-disabled':
    'This service stores no changes at a pause: they are read from the agent while its sandbox runs.',
  'archive-empty': 'No changes of this conversation are stored: its next pause stores them.',
  'archive-expired': 'The stored changes were deleted, because their retention was over.',
};
