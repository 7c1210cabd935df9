import { parseChangelog } from '../../../helm/tools/changelog.ts';
import {
  annotationsOf,
  faultsOf,
  notesOf,
  releases,
  versions,
} from '../../../helm/tools/release.ts';

const changelog = (...sections: readonly string[]) =>
  `# Changelog\n\nAll changes.\n\n## [Unreleased]\n\n${sections.join('\n\n')}\n`;
const released = changelog(
  '### Added\n\n- One\n  thing.\n- Another.',
  '## [0.2.0] - 2026-02-03\n\n### Fixed\n\n- A bug.\n\n### Security\n\n- A hole.',
  '## [0.1.0] - 2026-02-03\n\n### Added\n\n- All.',
  '[0.2.0]: https://git.example/compare/v0.1.0...v0.2.0',
);

describe('a changelog', () => {
  it('is read as releases, the newest first', () => {
    expect(parseChangelog(released)).toEqual([
      {
        version: 'Unreleased',
        date: undefined,
        changes: [
          { kind: 'Added', text: 'One thing.' },
          { kind: 'Added', text: 'Another.' },
        ],
        notes: '### Added\n\n- One\n  thing.\n- Another.\n',
      },
      {
        version: '0.2.0',
        date: '2026-02-03',
        changes: [
          { kind: 'Fixed', text: 'A bug.' },
          { kind: 'Security', text: 'A hole.' },
        ],
        notes: '### Fixed\n\n- A bug.\n\n### Security\n\n- A hole.\n',
      },
      {
        version: '0.1.0',
        date: '2026-02-03',
        changes: [{ kind: 'Added', text: 'All.' }],
        notes: '### Added\n\n- All.\n',
      },
    ]);
  });

  it.each([
    ['another title', released.replace('# Changelog', '# History'), 'the title'],
    [
      'no section of what is unreleased',
      released.replace('## [Unreleased]', '## [0.3.0] - 2026-03-03'),
      '[Unreleased]',
    ],
    [
      'a heading of another form',
      released.replace('## [0.2.0] - 2026-02-03', '## 0.2.0'),
      '## 0.2.0'.slice(3),
    ],
    [
      'a version without a date',
      released.replace('## [0.2.0] - 2026-02-03', '## [0.2.0]'),
      '0.2.0: a version has a date',
    ],
    [
      'a date that does not exist',
      released.replace('2026-02-03', '2026-02-30'),
      '2026-02-30 is no date',
    ],
    [
      'a section of another name',
      released.replace('### Fixed', '### Improved'),
      '"Improved" is none of',
    ],
    ['a section twice', released.replace('### Security', '### Fixed'), '"Fixed" occurs twice'],
    ['an empty section', released.replace('- A bug.\n\n', ''), '"Fixed" is empty'],
    ['a change without a section', released.replace('### Fixed\n\n', ''), 'a change precedes'],
    [
      'a paragraph in a section',
      released.replace('- A bug.', 'A bug.'),
      'neither a heading nor a change: A bug.',
    ],
    ['a version without a change', released.replace('### Added\n\n- All.', ''), '0.1.0: no change'],
    ['versions out of order', released.replace('[0.1.0]', '[0.10.0]'), '0.10.0 follows 0.2.0'],
    ['a version twice', released.replace('[0.1.0]', '[0.2.0]'), '0.2.0 follows 0.2.0'],
    [
      'dates out of order',
      released.replace('## [0.1.0] - 2026-02-03', '## [0.1.0] - 2026-02-04'),
      '0.1.0 follows 0.2.0',
    ],
    ['a link to no section', released.replace('[0.2.0]: ', '[0.4.0]: '), 'the link [0.4.0]'],
  ])('is refused with %s', (_sentence, text, message) => {
    expect(text).not.toBe(released);
    expect(() => parseChangelog(text)).toThrow(message);
  });

  it('of the project has the form, and changes that are not empty', () => {
    expect(releases().flatMap(({ changes }) => changes).length).toBeGreaterThan(0);
  });
});

describe('a release', () => {
  it('finds one version everywhere', () => {
    expect(new Set(versions().values()).size).toBe(1);
    expect([...versions().keys()]).toEqual(
      expect.arrayContaining([
        'package.json',
        'packages/kube/package.json',
        'Chart.yaml appVersion',
      ]),
    );
  });

  it('is refused for a tag of another version, with every place', () => {
    const faults = faultsOf('v99.0.0');
    expect(faults).toHaveLength(versions().size + 1);
    expect(faults.at(-1)).toBe('CHANGELOG.md has no section for v99.0.0');
  });

  it('takes its notes and its annotations from its section of the changelog', () => {
    const list = parseChangelog(released);
    expect(notesOf('v0.2.0', list)).toBe('### Fixed\n\n- A bug.\n\n### Security\n\n- A hole.\n');
    expect(() => notesOf('v0.3.0', list)).toThrow('no section for v0.3.0');
    const annotations = annotationsOf('registry.example/agents', '0.2.0', list);
    expect(annotations['artifacthub.io/changes']).toBe(
      '- kind: fixed\n  description: A bug.\n- kind: security\n  description: A hole.\n',
    );
    expect(annotations['artifacthub.io/images']).toContain(
      'image: registry.example/agents/conversation-operator-agent:0.2.0\n',
    );
  });
});
