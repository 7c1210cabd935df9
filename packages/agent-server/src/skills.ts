import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { parseJson } from './json.ts';

export interface Skill {
  readonly name: string;
  /** `repo`: always active. `knowledge`: active when a message contains one of the triggers. */
  readonly type: 'repo' | 'knowledge';
  readonly content: string;
  readonly triggers: readonly string[];
  readonly source: string;
}

const maxSkillBytes = 64 * 1024;
const maxSkills = 100;

/** Returns AGENTS.md and the skills in the folder `.openhands` of a repository. */
export async function projectSkills(projectDir: string): Promise<readonly Skill[]> {
  const files = [join(projectDir, 'AGENTS.md')];
  for (const folder of ['.openhands/skills', '.openhands/microagents']) {
    const names = await readdir(join(projectDir, folder)).catch(() => []);
    files.push(
      ...names
        .filter((name) => name.endsWith('.md'))
        .sort()
        .map((name) => join(projectDir, folder, name)),
    );
  }
  const skills = await Promise.all(files.slice(0, maxSkills).map(skillAt));
  return skills.filter((skill) => skill !== undefined);
}

/** Returns the hooks of the repository unchanged; undefined if the file is absent or invalid. */
export async function projectHooks(projectDir: string): Promise<object | undefined> {
  const text = await readFile(join(projectDir, '.openhands/hooks.json'), 'utf8').catch(() => '');
  const hooks = parseJson(text);
  return typeof hooks === 'object' && hooks !== null && !Array.isArray(hooks) ? hooks : undefined;
}

async function skillAt(source: string): Promise<Skill | undefined> {
  const text = await readFile(source, 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const triggers = triggersOf(text);
  return {
    name: basename(source, '.md').toLowerCase(),
    type: triggers.length > 0 ? 'knowledge' : 'repo',
    content: text.slice(0, maxSkillBytes),
    triggers,
    source,
  };
}

/** Returns the `triggers:` list of the front matter, which has one item per line. */
function triggersOf(text: string): readonly string[] {
  const frontMatter = /^---\r?\n([\s\S]*?)\r?\n---/.exec(text)?.[1] ?? '';
  const list = /^triggers:\s*\r?\n((?:\s*-\s*.+(?:\r?\n|$))+)/m.exec(frontMatter)?.[1] ?? '';
  return list
    .split('\n')
    .map((line) =>
      line
        .replace(/^\s*-\s*/, '')
        .replace(/^["']|["']\s*$/g, '')
        .trim(),
    )
    .filter((trigger) => trigger !== '');
}
