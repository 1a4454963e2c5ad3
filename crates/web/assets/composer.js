// The prompt: text, files, sending.

import { post } from './api.js';

const MAX_FILE = 10 * 1024 * 1024;

export class Composer {
  #files = [];

  constructor({ session, open }) {
    this.session = session; // returns the session's id
    this.open = open; // creates and opens a session
    this.form = document.querySelector('#composer');
    this.text = document.querySelector('#text');
    this.problem = document.querySelector('#problem');
    this.list = document.querySelector('#files');
    this.send = document.querySelector('#send');
    this.form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.text.addEventListener('input', () => {
      this.#grow();
      this.#save();
    });
    this.text.addEventListener('keydown', (event) => this.#key(event));
    this.text.addEventListener('paste', (event) => this.add([...(event.clipboardData?.files ?? [])]));
    const input = document.querySelector('#file');
    input.addEventListener('change', () => {
      this.add([...input.files]);
      input.value = '';
    });
    const main = document.querySelector('#main');
    main.addEventListener('dragover', (event) => event.preventDefault());
    main.addEventListener('drop', (event) => {
      event.preventDefault();
      this.add([...(event.dataTransfer?.files ?? [])]);
    });
  }

  // Shows the unsent text of a session.
  show() {
    this.text.value = sessionStorage.getItem(`draft-${this.session()}`) ?? '';
    this.#files = [];
    this.#showFiles();
    this.problem.textContent = '';
    this.#grow();
  }

  add(files) {
    for (const file of files) {
      if (file.size > MAX_FILE) this.problem.textContent = `${file.name} is larger than 10 MiB`;
      else this.#files.push(file);
    }
    this.#showFiles();
  }

  // Enter sends where there is a keyboard, and breaks the line on a phone.
  #key(event) {
    if (event.key !== 'Enter' || event.isComposing || event.shiftKey || event.altKey) return;
    const phone = matchMedia('(pointer: coarse)').matches;
    if (!phone || event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.#submit();
    }
  }

  async #submit() {
    const text = this.text.value;
    if (this.send.disabled || (!text.trim() && this.#files.length === 0)) return;
    this.send.disabled = true;
    this.problem.textContent = '';
    try {
      const attachments = await Promise.all(this.#files.map(read));
      const session = this.session() || (await this.open());
      await post(`/api/sessions/${session}/prompt`, { text, attachments });
      this.text.value = '';
      this.#files = [];
      this.#save();
    } catch (error) {
      this.problem.textContent = `Not sent: ${error.message}`;
    } finally {
      this.send.disabled = false;
      this.#showFiles();
      this.#grow();
    }
  }

  #save() {
    sessionStorage.setItem(`draft-${this.session()}`, this.text.value);
  }

  #grow() {
    this.text.style.height = 'auto';
    this.text.style.height = `${Math.min(this.text.scrollHeight + 2, innerHeight * 0.4)}px`;
  }

  #showFiles() {
    this.list.replaceChildren(
      ...this.#files.map((file) => {
        const item = document.createElement('li');
        item.textContent = file.name;
        const remove = document.createElement('button');
        remove.type = 'button';
        remove.textContent = '✕';
        remove.ariaLabel = `Remove ${file.name}`;
        remove.addEventListener('click', () => {
          this.#files = this.#files.filter((other) => other !== file);
          this.#showFiles();
        });
        item.append(remove);
        return item;
      }),
    );
  }
}

function read(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onerror = () => reject(new Error(`${file.name} cannot be read`));
    reader.onload = () => {
      const data = String(reader.result).split(',', 2)[1] ?? '';
      resolve({ name: file.name, mime: file.type || 'application/octet-stream', data });
    };
    reader.readAsDataURL(file);
  });
}
