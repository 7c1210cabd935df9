import { useSignal } from '@preact/signals';
import type { OwnSettings } from '../../settings.ts';
import { AskingButton } from '../asking-button.tsx';
import { Field, SettingsForm } from './settings-form.tsx';

/** The names of the secrets, and a form for one more. Values are written and never shown. */
export function SecretsSection({ own }: { readonly own: OwnSettings }) {
  const name = useSignal('');
  const value = useSignal('');
  const description = useSignal('');
  const secrets = own.secrets.value;
  const isKnown = secrets.some(({ record }) => record.name === name.value.trim());
  return (
    <SettingsForm
      id="secrets"
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
                <AskingButton
                  verb="Delete"
                  subject={entry.record.name}
                  action={entry.action}
                  isAsking={entry.isAsking}
                  onConfirm={() => void own.deleteSecret(entry)}
                />
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
