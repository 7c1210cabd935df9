import { spawn } from 'node:child_process';
import { CommandError } from '../commands/terminal.ts';
import { conversationIdOf } from '../resources/ids.ts';
import { withCluster, type PluginOptions } from './cluster.ts';
import { named } from './names.ts';
import { readScene } from './scene.ts';
import { loginOf, serverOf } from './service.ts';
import { print } from './terminal.ts';

/** Opens a page in the browser of this machine, if there is one; the address is printed anyway. */
export function openPage(address: string): void {
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
  if (program === 'xdg-open' && !process.env['DISPLAY'] && !process.env['WAYLAND_DISPLAY']) return;
  const child = spawn(program, [address], { detached: true, stdio: 'ignore' });
  child.on('error', () => undefined);
  child.unref();
}

/** Prints the address of the conversation's page, and opens it. */
export const open = (
  text: string,
  options: PluginOptions & { readonly browser?: boolean },
): Promise<void> =>
  withCluster(options, async ({ client, namespace, context }) => {
    const server = serverOf(options.server, await loginOf(context));
    if (server === undefined)
      throw new CommandError(
        'The address of the gateway is not known: give --server URL, or log in with kubectl conversations login --server URL',
      );
    const conversation = named(await readScene(client, namespace), text);
    const address = `${server}/c/${conversationIdOf(conversation)}`;
    print(address);
    if (options.browser !== false) openPage(address);
  });
