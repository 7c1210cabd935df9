import type { Command } from 'commander';
import type { ArchiveAccess } from './archive.ts';
import type { ExportOptions } from './archive-export.ts';
import type { PruneArchivesOptions } from './archive-prune.ts';
import type { ClusterOptions } from './process.ts';

export interface ArchiveCommandOptions {
  /** Adds the options `--kubeconfig` and `--namespace`. */
  readonly inCluster: (command: Command) => Command;
  readonly open: () => Promise<ArchiveAccess & AsyncDisposable>;
}

/** Adds the command `archive`, which uses the archive and the keys of the server's settings. */
export function addArchiveCommand(
  program: Command,
  { inCluster, open }: ArchiveCommandOptions,
): void {
  const archive = program
    .command('archive')
    .description("histories of conversations, in the archive of the server's settings");

  inCluster(
    archive
      .command('verify [names...]')
      .description('read the archives of these conversations or UIDs, or all, and show damage'),
  ).action(async (names: readonly string[], options: ClusterOptions) => {
    await using access = await open();
    await (await import('./archive-verify.ts')).verifyArchives(names, options, access);
  });

  inCluster(
    archive
      .command('export <name>')
      .description('write the events of a conversation, or of the archive of a UID'),
  )
    .option(
      '-o, --output <file>',
      'lines of JSON, or a ZIP archive where it ends in .zip; by default lines on standard output',
    )
    .action(async (name: string, options: ExportOptions) => {
      await using access = await open();
      await (await import('./archive-export.ts')).exportArchive(name, options, access);
    });

  inCluster(
    archive
      .command('prune [uids...]')
      .description('show those whose conversation is gone, and delete them with --delete'),
  )
    .option('--delete', 'delete them')
    .option(
      '--older-than <time>',
      'only those whose last event is so long ago, for example 12h or 30d',
      '1d',
    )
    .option(
      '--foreign',
      'with --delete and UIDs: also those of another installation, or under an unknown master key',
    )
    .action(async (names: readonly string[], options: PruneArchivesOptions) => {
      await using access = await open();
      await (await import('./archive-prune.ts')).pruneArchives(names, options, access);
    });
}
