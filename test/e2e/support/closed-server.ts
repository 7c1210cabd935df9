import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { kubectl, stateFolder } from './cluster.ts';
import { podsThatReach, type Target } from './network-policies.ts';

const execute = promisify(execFile);
const table = 'conversation-operator-e2e';

/**
 * Closes a server to all pods but those of the given namespaces whose policies open it, as a
 * network plugin does. Pods that come later are closed out as well. The plugin of a cluster of
 * test/cluster enforces no policies; any other cluster is left as it is, because there the plugin
 * has to do it.
 */
export async function closeServer(
  target: Target,
  namespaces: readonly string[],
): Promise<AsyncDisposable> {
  if (stateFolder === undefined) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  const addresses = await Promise.all(
    namespaces.map(async (namespace) => {
      const pods = await podsThatReach(namespace, target);
      if (pods.length === 0) return [];
      const found = await kubectl([
        ...['--namespace', namespace, 'get', 'pods', ...pods],
        ...['-o', 'jsonpath={.items[*].status.podIP}{.status.podIP}'],
      ]);
      return found.split(' ');
    }),
  );
  const open = addresses.flat();
  const isOther = open.length === 0 ? '' : `ip saddr != { ${open.join(', ')} }`;
  await nft(`table ip ${table}
delete table ip ${table}
table ip ${table} {
  chain forward {
    type filter hook forward priority filter;
    ip daddr ${target.address} tcp dport ${target.port} ct state new ${isOther} drop
  }
}`);
  return { [Symbol.asyncDispose]: () => nft(`delete table ip ${table}`) };
}

async function nft(rules: string): Promise<void> {
  const child = execute('nft', ['-f', '-']);
  child.child.stdin?.end(rules);
  await child;
}
