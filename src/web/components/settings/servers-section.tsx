import { useSignal } from '@preact/signals';
import type { OwnSettings, ServerRecord } from '../../settings.ts';
import { AskingButton } from '../asking-button.tsx';
import { Field, SettingsForm } from './settings-form.tsx';

/** The address of a server, or the program that the agent starts. */
const placeOf = ({ server }: ServerRecord): string =>
  'url' in server ? server.url : [server.command, ...server.args].join(' ');

/** The names of the headers or variables whose values are stored. */
const hiddenOf = ({ server }: ServerRecord): string =>
  Object.keys(('url' in server ? server.headers : server.env) ?? {}).join(', ');

/** The servers of the Model Context Protocol of the owner, and a form for one more. */
export function ServersSection({ own }: { readonly own: OwnSettings }) {
  const name = useSignal('');
  const url = useSignal('');
  const authorization = useSignal('');
  const servers = own.servers.value;
  return (
    <SettingsForm
      id="mcp-servers"
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
                <AskingButton
                  verb="Delete"
                  subject={entry.record.name}
                  action={entry.action}
                  isAsking={entry.isAsking}
                  onConfirm={() => void own.deleteServer(entry)}
                />
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
