/** A folder of the tree of files. */
export interface Folder {
  readonly name: string;
  /** The path of the folder, relative to the working folder; '' for that itself. */
  readonly path: string;
  readonly folders: readonly Folder[];
  /** Names of the files in it. */
  readonly files: readonly string[];
}

interface Growing {
  readonly folders: Map<string, Growing>;
  readonly files: string[];
}

const order = new Intl.Collator('en', { numeric: true });

/** The tree of paths, each folder and file in the order of the names. */
export function treeOf(paths: readonly string[]): Folder {
  const root: Growing = { folders: new Map(), files: [] };
  for (const path of paths) {
    const names = path.split('/');
    const file = names.pop() ?? '';
    let folder = root;
    for (const name of names) {
      const next = folder.folders.get(name) ?? { folders: new Map(), files: [] };
      folder.folders.set(name, next);
      folder = next;
    }
    folder.files.push(file);
  }
  const grown = ({ folders, files }: Growing, name: string, path: string): Folder => ({
    name,
    path,
    folders: [...folders]
      .sort(([one], [other]) => order.compare(one, other))
      .map(([below, folder]) => grown(folder, below, path === '' ? below : `${path}/${below}`)),
    files: files.sort((one, other) => order.compare(one, other)),
  });
  return grown(root, '', '');
}

/** Paths that contain all words of a text, the shortest first. */
export function matchingPaths(
  paths: readonly string[],
  text: string,
  limit: number,
): readonly string[] {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  return paths
    .filter((path) => words.every((word) => path.toLowerCase().includes(word)))
    .sort((one, other) => one.length - other.length || order.compare(one, other))
    .slice(0, limit);
}
