import { signal } from '@preact/signals';
import { api, messageOf } from './api.ts';
import { Entry } from './entry.ts';
import type { SecretRecord, SettingsRecord } from './wire.ts';

export interface ServerRecord {
  readonly name: string;
  readonly server: SettingsRecord['mcp_config'][string];
}

interface SecretPage {
  readonly items: readonly SecretRecord[];
  readonly next_page_id: string | null;
}

/** The settings and secrets of the owner, as the page /account shows and changes them. */
export class OwnSettings {
  readonly settings = signal<SettingsRecord | undefined>(undefined);
  readonly secrets = signal<readonly Entry<SecretRecord>[]>([]);
  readonly servers = signal<readonly Entry<ServerRecord>[]>([]);
  readonly problem = signal<string | undefined>(undefined);

  open = async (): Promise<void> => {
    this.problem.value = undefined;
    try {
      const [settings, secrets] = await Promise.all([
        api.get<SettingsRecord>('/api/v1/settings', {}),
        allSecrets(),
      ]);
      this.#show(settings);
      this.secrets.value = secrets.map((record) => new Entry(record));
    } catch (error) {
      this.problem.value = messageOf(error);
    }
  };

  /** Rejects with an ApiError where the service refuses the change. */
  save = async (changes: object): Promise<void> => {
    this.#show(await api.post<SettingsRecord>('/api/v1/settings', changes));
  };

  /** Stores a secret; one of this name gets the value. Rejects with an ApiError. */
  storeSecret = async (name: string, value: string, description: string): Promise<void> => {
    const isKnown = this.secrets.peek().some(({ record }) => record.name === name);
    if (isKnown) await api.put(`/api/v1/secrets/${encodeURIComponent(name)}`, { name, value });
    else await api.post('/api/v1/secrets', { name, value, description });
    this.secrets.value = (await allSecrets()).map((record) => new Entry(record));
  };

  deleteSecret = (entry: Entry<SecretRecord>): Promise<void> =>
    this.#remove(
      entry,
      () => this.deleteSecret(entry),
      async () => {
        await api.delete(`/api/v1/secrets/${encodeURIComponent(entry.record.name)}`);
        this.secrets.value = this.secrets.peek().filter((other) => other !== entry);
      },
    );

  deleteServer = (entry: Entry<ServerRecord>): Promise<void> =>
    this.#remove(
      entry,
      () => this.deleteServer(entry),
      () => this.save({ mcp_config: { [entry.record.name]: null } }),
    );

  /** An entry goes once the service has deleted it. */
  async #remove(
    { action, isAsking }: Entry<unknown>,
    again: () => Promise<void>,
    remove: () => Promise<void>,
  ): Promise<void> {
    const label = 'Deleting';
    isAsking.value = false;
    action.value = { label };
    try {
      await remove();
    } catch (error) {
      action.value = { label, problem: messageOf(error), retry: () => void again() };
    }
  }

  #show(settings: SettingsRecord): void {
    this.settings.value = settings;
    this.servers.value = Object.entries(settings.mcp_config)
      .map(([name, server]) => new Entry({ name, server }))
      .sort((one, other) => one.record.name.localeCompare(other.record.name));
  }
}

async function allSecrets(): Promise<readonly SecretRecord[]> {
  const all: SecretRecord[] = [];
  let pageId: string | undefined;
  do {
    const page: SecretPage = await api.get<SecretPage>('/api/v1/secrets/search', {
      limit: 100,
      page_id: pageId,
    });
    all.push(...page.items);
    pageId = page.next_page_id ?? undefined;
  } while (pageId !== undefined);
  return all;
}
