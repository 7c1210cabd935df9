import { useSignal, signal } from '@preact/signals';
import { usePage } from '../page-state.ts';
import { useEffect, useMemo } from 'preact/hooks';
import type { SettingsRecord, SecretRecord } from '../wire.ts';
import { RetryProblem } from '../components/loading.tsx';
import { Field, SettingsForm } from '../components/settings-form.tsx';
import { KeysSection } from '../components/own-keys.tsx';
import { AskingButton } from '../components/asking-button.tsx';
import { api, messageOf } from '../api.ts';
import { Entry } from '../key-list.ts';

interface ServerRecord {
  readonly name: string;
  readonly server: SettingsRecord['mcp_config'][string];
}

interface SecretPage {
  readonly items: readonly SecretRecord[];
  readonly next_page_id: string | null;
}

class OwnSettings {
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

  /** Rejects with an ApiError if the gateway refuses the change. */
  save = async (changes: object): Promise<void> => {
    this.#show(await api.post<SettingsRecord>('/api/v1/settings', changes));
  };

  /** Stores a secret, or replaces the value of one with this name. Rejects with an ApiError. */
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

  /** Shows the progress or the failure of a deletion in the entry. */
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

const placeOf = ({ server }: ServerRecord): string =>
  'url' in server ? server.url : [server.command, ...server.args].join(' ');

/** The names of the stored headers or environment variables, whose values are not shown. */
const hiddenOf = ({ server }: ServerRecord): string =>
  Object.keys(('url' in server ? server.headers : server.env) ?? {}).join(', ');

/** The owner's servers of the Model Context Protocol (MCP), and a form to add one. */
function ServersSection({ own }: { readonly own: OwnSettings }) {
  const { may } = usePage();
  const name = useSignal('');
  const url = useSignal('');
  const authorization = useSignal('');
  const servers = own.servers.value;
  return (
    <SettingsForm
      id="mcp-servers"
      scope="manage"
      isAddition
      title="MCP servers"
      text="Servers of the Model Context Protocol whose tools agents may use in new conversations."
      button={servers.some(({ record }) => record.name === name.value.trim()) ? 'Change' : 'Add'}
      send={async () => {
        const header = authorization.peek().trim();
        await own.save({
          mcp_config: {
            [name.peek().trim()]: {
              url: url.peek().trim(),
              ...(header === '' ? {} : { headers: { Authorization: header } }),
            },
          },
        });
        name.value = url.value = authorization.value = '';
      }}
      before={
        servers.length === 0 ? (
          <p class="quiet-text">There is no server.</p>
        ) : (
          <ul class="settings-list">
            {servers.map((entry) => (
              <li key={entry.record.name}>
                <code>{entry.record.name}</code>
                <span class="quiet-text">
                  {placeOf(entry.record)}
                  {hiddenOf(entry.record) !== '' && ` with ${hiddenOf(entry.record)}`}
                </span>
                {may('manage') && (
                  <AskingButton
                    verb="Delete"
                    subject={entry.record.name}
                    action={entry.action}
                    isAsking={entry.isAsking}
                    onConfirm={() => void own.deleteServer(entry)}
                  />
                )}
              </li>
            ))}
          </ul>
        )
      }
    >
      <Field id="server-name" label="Name" value={name} placeholder="docs" required />
      <Field
        id="server-url"
        label="URL"
        value={url}
        placeholder="https://mcp.example.com/mcp"
        required
      />
      <Field
        id="server-authorization"
        label="Authorization"
        value={authorization}
        isSecret
        placeholder="Bearer …"
      />
    </SettingsForm>
  );
}

/** The names of the secrets, and a form to add one. The page never shows stored values. */
function SecretsSection({ own }: { readonly own: OwnSettings }) {
  const { may } = usePage();
  const name = useSignal('');
  const value = useSignal('');
  const description = useSignal('');
  const secrets = own.secrets.value;
  const isKnown = secrets.some(({ record }) => record.name === name.value.trim());
  return (
    <SettingsForm
      id="secrets"
      scope="secrets"
      isAddition
      title="Secrets"
      text="An agent gets the value of a secret in the commands that name it. A value is never shown again."
      button={isKnown ? 'Replace the value' : 'Store'}
      send={async () => {
        await own.storeSecret(name.peek().trim(), value.peek(), description.peek().trim());
        name.value = value.value = description.value = '';
      }}
      before={
        secrets.length === 0 ? (
          <p class="quiet-text">There is no secret.</p>
        ) : (
          <ul class="settings-list">
            {secrets.map((entry) => (
              <li key={entry.record.name}>
                <code>{entry.record.name}</code>
                <span class="quiet-text">{entry.record.description}</span>
                {may('secrets') && (
                  <AskingButton
                    verb="Delete"
                    subject={entry.record.name}
                    action={entry.action}
                    isAsking={entry.isAsking}
                    onConfirm={() => void own.deleteSecret(entry)}
                  />
                )}
              </li>
            ))}
          </ul>
        )
      }
    >
      <Field id="secret-name" label="Name" value={name} placeholder="NPM_TOKEN" required />
      <Field id="secret-value" label="Value" value={value} isSecret required />
      {!isKnown && <Field id="secret-description" label="Description" value={description} />}
    </SettingsForm>
  );
}

interface PartProps {
  readonly own: OwnSettings;
  readonly settings: SettingsRecord;
}

function CommitsSection({ own, settings }: PartProps) {
  const name = useSignal(settings.git_user_name ?? '');
  const email = useSignal(settings.git_user_email ?? '');
  const namesAgent = useSignal(settings.git_co_author);
  return (
    <SettingsForm
      id="commits"
      scope="manage"
      title="Commits"
      text="The author of the commits that agents make in new conversations. Without one, the image of the agent decides."
      button="Save"
      send={() =>
        own.save({
          git_user_name: name.peek().trim(),
          git_user_email: email.peek().trim(),
          git_co_author: namesAgent.peek(),
        })
      }
    >
      <Field id="git-name" label="Name" value={name} />
      <Field id="git-email" label="Email" value={email} />
      <label class="check">
        <input
          type="checkbox"
          checked={namesAgent.value}
          onChange={(event) => (namesAgent.value = event.currentTarget.checked)}
        />
        Name the agent as co-author
      </label>
    </SettingsForm>
  );
}

/** The model of new conversations that name no model. The field has only the owner's own choice. */
function ModelSection({ own, settings }: PartProps) {
  const { may } = usePage();
  const model = useSignal(settings.own_llm_model ?? '');
  return (
    <SettingsForm
      id="default-model"
      scope="manage"
      title="Model"
      text="The model of new conversations that name none. Empty: the one of their template."
      button="Save"
      send={async () => {
        await own.save({ llm_model: model.peek().trim() });
        model.value = own.settings.peek()?.own_llm_model ?? '';
      }}
    >
      <Field
        id="default-model-name"
        label="Model"
        value={model}
        placeholder={`The default, ${settings.default_llm_model ?? 'that of the agent'}`}
      />
      {settings.own_llm_model !== null && may('manage') && (
        <button class="small" onClick={() => (model.value = '')}>
          Use the default
        </button>
      )}
    </SettingsForm>
  );
}

export function SettingsPage() {
  const own = useMemo(() => new OwnSettings(), []);
  const settings = own.settings.value;
  const problem = own.problem.value;
  const { title, account } = usePage();
  useEffect(() => {
    title.value = 'Settings';
    void own.open();
  }, [own]);
  return (
    <main class="settings-page">
      <h1>Settings</h1>
      {account.value !== undefined && (
        <p class="quiet-text">
          Signed in as {account.value.name ?? account.value.id}
          {account.value.name !== null && `, owner ${account.value.id}`}
        </p>
      )}
      {problem !== undefined && <RetryProblem text={problem} onRetry={() => void own.open()} />}
      {settings === undefined ? (
        problem === undefined && (
          <p class="quiet-text" role="status">
            Reading your settings…
          </p>
        )
      ) : (
        <>
          <SecretsSection own={own} />
          <ServersSection own={own} />
          <CommitsSection own={own} settings={settings} />
          <ModelSection own={own} settings={settings} />
          <KeysSection />
        </>
      )}
    </main>
  );
}
