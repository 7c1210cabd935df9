import { Command, Option } from 'commander';
import { addArchiveCommand } from './commands/archive-command.ts';
import type { CheckOptions } from './commands/check.ts';
import type { PruneOptions } from './commands/claims.ts';
import type { ClusterOptions } from './commands/process.ts';
import { CommandError } from './commands/terminal.ts';
import type { CreateKeyOptions } from './commands/keys.ts';
import type { LoginLinkOptions } from './commands/login-link.ts';
import { ConfigError } from './config/environment.ts';

/** The message of an error that a person can fix. Any other error is a bug and shows its stack. */
const explained = (error: unknown): string | undefined => {
  if (error instanceof CommandError || error instanceof ConfigError) return error.message;
  const known = ['KubeconfigError', 'ListenError', 'ApiError', 'TransportError', 'StoreError'];
  return error instanceof Error && known.includes(error.name) ? error.message : undefined;
};

/** The container image does not contain `up.ts`, which runs a local control plane. */
async function localCluster() {
  try {
    return await import('./commands/up.ts');
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error) || error.code !== 'ERR_MODULE_NOT_FOUND')
      throw error;
    throw new CommandError(
      'the container image has no local cluster: run `make run` in a checkout of the repository',
      { cause: error },
    );
  }
}

export interface ProgramOptions {
  readonly version: string;
  readonly description: string;
  /** Folder of the program's first file. The built pages are beside this file. */
  readonly programFolder: string;
}

/** Runs the command that the arguments name, and sets the exit code of the process. */
export async function runProgram({
  version,
  description,
  programFolder,
}: ProgramOptions): Promise<void> {
  const program = new Command('conversation-operator')
    .description(description)
    .showHelpAfterError();

  program
    .command('up')
    .description(
      'everything in one process on this machine, with an embedded control plane (PORT, DATA_DIR, LOG_LEVEL)',
    )
    .action(async () => (await localCluster()).up({ version, programFolder }));

  program
    .command('operator')
    .description('the controllers, against a cluster')
    .action(async () => (await import('./commands/operator.ts')).operator());

  program
    .command('gateway')
    .description('the REST service, against a cluster')
    .action(async () =>
      (await import('./commands/gateway.ts')).gateway({ version, programFolder }),
    );

  program
    .command('relay')
    .description('the relay for models without the REST service, against a cluster')
    .action(async () => (await import('./commands/relay.ts')).relay());

  const keys = program.command('keys').description('keys for the REST service');
  const inCluster = (command: Command) =>
    command
      .option('--kubeconfig <file>', 'by default $KUBECONFIG, ~/.kube/config, or the pod')
      .option('-n, --namespace <name>', 'by default that of the kubeconfig');

  inCluster(keys.command('create').description('make a key and print it, once'))
    .requiredOption('--owner <name>', 'whose conversations the key opens')
    .addOption(
      new Option('--role <role>', 'what it may do').choices(['user', 'admin']).default('user'),
    )
    .option('--description <text>', 'what it is for')
    .addOption(
      new Option('--scopes <scope...>', 'what it opens; by default all').choices([
        'read',
        'start',
        'manage',
        'secrets',
        'admin',
      ]),
    )
    .option('--not-before <time>', 'when it begins to work; by default at once')
    .option('--expires-at <time>', 'when it stops working, for example 2027-01-31T00:00:00Z')
    .action(async (options: CreateKeyOptions) =>
      (await import('./commands/keys.ts')).createKey(options),
    );

  inCluster(keys.command('list').description('show all keys, never their values')).action(
    async (options: ClusterOptions) => (await import('./commands/keys.ts')).listKeys(options),
  );

  inCluster(keys.command('revoke <name>').description('delete a key')).action(
    async (name: string, options: ClusterOptions) =>
      (await import('./commands/keys.ts')).revokeKey(name, options),
  );

  inCluster(
    program
      .command('login-link')
      .description(
        'make a link that signs a person in once: for the service of this machine, else for a cluster',
      ),
  )
    .option('--owner <name>', 'whom it signs in as; needed for a cluster')
    .addOption(
      new Option('--role <role>', 'what the person may do; by default user on a cluster').choices([
        'user',
        'admin',
      ]),
    )
    .option('--url <url>', 'of the gateway; by default http://127.0.0.1:3000 on a cluster')
    .action(async (options: LoginLinkOptions) =>
      (await import('./commands/login-link.ts')).loginLink(options),
    );

  inCluster(
    program
      .command('check')
      .description(
        'try what an installation needs of the cluster; exit code 1: an error was found, 2: something could not be tried',
      ),
  )
    .option('--pre', 'before an installation, with your own rights')
    .addOption(new Option('-o, --output <format>', 'a report for programs').choices(['json']))
    .option('--template <name>', 'the SandboxTemplate whose sandboxes are tried', 'default')
    .option('--image <image>', 'of the operator and the gateway; by default $IMAGE')
    .option('--agent-image <image>', 'of sandboxes; by default that of the template')
    .option('--storage-class <name>', 'with --pre; by default the default class of the cluster')
    .option('--runtime-class <name>', 'with --pre; by default none')
    .option('--architectures <list>', 'that the images have', 'amd64,arm64')
    .option('--release <name>', 'of Helm; by default $RELEASE or conversation-operator')
    .option(
      '--release-namespace <name>',
      'by default $RELEASE_NAMESPACE, or the namespace without -sandboxes',
    )
    .option(
      '--operator-account <namespace/name>',
      'its service account; by default as the chart names it',
    )
    .option(
      '--gateway-account <namespace/name>',
      'its service account; by default as the chart names it',
    )
    .option(
      '--relay-account <namespace/name>',
      'of the relay for models where that is a Deployment of its own; by default none',
    )
    .option('--skip <list>', 'names of checks that do not run, separated by commas')
    .action(async (options: CheckOptions) => (await import('./commands/check.ts')).check(options));

  const claims = program
    .command('claims')
    .description("volume claims of sandboxes, in the sandboxes' namespace");

  inCluster(
    claims.command('list').description('list all of them, and whether a sandbox uses them'),
  ).action(async (options: ClusterOptions) =>
    (await import('./commands/claims.ts')).listClaims(options),
  );

  inCluster(
    claims
      .command('prune [names...]')
      .description('show those whose sandbox is gone, and delete them with --delete'),
  )
    .option('--delete', 'delete them, and the files on them')
    .option('--retained', 'also those that a template has kept (storage.retain)')
    .option('--owner <name>', 'only those of this owner')
    .option(
      '--older-than <time>',
      'only those that were made so long ago, for example 12h or 30d',
      '1d',
    )
    .action(async (names: readonly string[], options: PruneOptions) =>
      (await import('./commands/claims.ts')).pruneClaims(names, options),
    );

  addArchiveCommand(program, {
    inCluster,
    open: async () => (await import('./commands/archive.ts')).openArchiveAccess(),
  });

  program
    .command('crds')
    .description('print the custom resource definitions')
    .option('-o, --output <folder>', 'write them into files')
    .action(async (options: { readonly output?: string }) =>
      (await import('./commands/crds.ts')).crds(options),
    );

  program
    .command('version')
    .description('print the version')
    .action(() => {
      process.stdout.write(`${version}\n`);
    });

  try {
    await program.parseAsync();
  } catch (error) {
    const text =
      explained(error) ?? (error instanceof Error ? (error.stack ?? error.message) : String(error));
    for (const line of text.split('\n')) process.stderr.write(`conversation-operator: ${line}\n`);
    process.exitCode = 1;
  }
}
