import { Command } from 'commander';
import packageJson from '../package.json' with { type: 'json' };
import { crds } from './commands/crds.ts';

const program = new Command('conversation-operator').description(packageJson.description);
program.command('crds').option('-o, --output <folder>').action(crds);
await program.parseAsync();
