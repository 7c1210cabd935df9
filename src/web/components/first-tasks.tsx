import { usePage } from '../page-state.ts';

interface Task {
  readonly name: string;
  readonly text: string;
  readonly commands: string;
}

/** Tasks that show the service: the reference agent runs their commands without a model. */
const tasks: readonly Task[] = [
  {
    name: 'Write two files',
    text: 'The tab Changes shows them.',
    commands: [
      'git init -q 2>/dev/null',
      "printf '# Notes\\n\\nWritten by an agent.\\n' > NOTES.md",
      'printf \'print("hello")\\n\' > hello.py',
      'ls -l',
    ].join('\n'),
  },
  {
    name: 'Count for a minute',
    text: 'Its output shows while it runs. “Stop” ends it.',
    commands: 'for i in $(seq 1 60); do echo "$i of 60"; sleep 1; done',
  },
  {
    name: 'Fail',
    text: 'A command that fails brings the conversation to the top of this list.',
    commands: 'echo "this fails" >&2\nexit 3',
  },
];

const messageOf = ({ name, commands }: Task): string =>
  `${name}:\n\n\`\`\`sh\n${commands}\n\`\`\`\n`;

/** The content of a list that has no conversations yet. */
export function FirstTasks() {
  const page = usePage();
  return (
    <div class="first-tasks">
      <p class="empty">
        There are no conversations yet. Write a message to start one, or try a task that needs no
        model:
      </p>
      <ul role="list">
        {tasks.map((task) => (
          <li key={task.name}>
            <button
              type="button"
              onClick={() => {
                page.draft.message.value = messageOf(task);
                page.openForm();
              }}
            >
              {task.name}
            </button>{' '}
            <span class="quiet-text">{task.text}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
