import { useSignal } from '@preact/signals';
import { usePage } from '../../page-state.ts';
import { useEffect, useMemo } from 'preact/hooks';
import { OwnSettings } from '../../settings.ts';
import type { SettingsRecord } from '../../wire.ts';
import { RetryProblem } from '../retry-problem.tsx';
import { Field, SettingsForm } from './settings-form.tsx';
import { KeysSection } from './keys-section.tsx';
import { SecretsSection } from './secrets-section.tsx';
import { ServersSection } from './servers-section.tsx';

interface PartProps {
  readonly own: OwnSettings;
  readonly settings: SettingsRecord;
}

/** The author of commits, and whether they name the agent. */
function CommitsSection({ own, settings }: PartProps) {
  const name = useSignal(settings.git_user_name ?? '');
  const email = useSignal(settings.git_user_email ?? '');
  const namesAgent = useSignal(settings.git_co_author);
  return (
    <SettingsForm
      id="commits"
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
          onChange={(event) => {
            namesAgent.value = event.currentTarget.checked;
          }}
        />
        Name the agent as co-author
      </label>
    </SettingsForm>
  );
}

/** The model of conversations that name none. The field has what the owner has chosen alone. */
function ModelSection({ own, settings }: PartProps) {
  const model = useSignal(settings.own_llm_model ?? '');
  return (
    <SettingsForm
      id="default-model"
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
      {settings.own_llm_model !== null && (
        <button
          class="small"
          onClick={() => {
            model.value = '';
          }}
        >
          Use the default
        </button>
      )}
    </SettingsForm>
  );
}

/** The page of the settings and secrets of one owner. */
export function SettingsPage() {
  const own = useMemo(() => new OwnSettings(), []);
  const settings = own.settings.value;
  const problem = own.problem.value;
  const { title } = usePage();
  useEffect(() => {
    title.value = 'Settings';
    void own.open();
  }, [own]);
  return (
    <main class="settings-page">
      <h1>Settings</h1>
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
