"""What the operators' tools (doctor, connect) say, in one place: what is found, and what to do about it."""

from __future__ import annotations

SYSTEM = "系统"
MARKS = {"ok": "✓", "info": "·", "warn": "!", "fail": "✗"}
TITLE_GOOD = "检查完毕，没有发现问题。"
TITLE_BAD = "检查完毕：{fail} 个问题，{warn} 个提醒。"
REST_GOOD = "其余 {count} 项正常。"
FIX = "处理：{fix}"

# settings
SETTINGS_OK = "设置格式正确"
SETTINGS_WARNING = "设置：{warning}"
PLACEHOLDER = "{field} 还是起步文件里的占位值"
PLACEHOLDER_FIX = "打开设置文件，填上 {field} 的真实值，然后重启"
PLAIN_MODE = "公众号用的是明文模式：没有记忆、工具和确认，签名一旦泄露就能冒充任何人"
PLAIN_MODE_FIX = "在公众平台把消息加解密方式改为「安全模式」，并把设置里的 mode 改为 safe"
NO_PUBLIC_URL = "没有设置 http.public_url，无法从外面检查回调地址，也不会给出链接"
NO_PUBLIC_URL_FIX = "把外面访问得到的地址写进 http.public_url，例如 https://bot.example.com"

# platform
TOKEN_OK = "取 access_token 正常（还有 {minutes} 分钟有效）"  # noqa: S105 -- a sentence
TOKEN_BAD = "取不到 access_token：平台答 {errcode}（{errmsg}）"  # noqa: S105
TOKEN_UNREACHABLE = "连不上平台 {base}（{errmsg}）"  # noqa: S105
TOKEN_UNREACHABLE_FIX = "检查这台机器能否访问该地址、DNS 和代理（账号的 proxy_url）"  # noqa: S105
ERRCODE_FIX = "按错误码 {errcode} 查平台文档；不清楚时把这一行发给管理员"
AGENT_OK = "应用「{name}」读得到，平台认可我们的出口 IP"
AGENT_BAD = "应用读不到：平台答 {errcode}（{errmsg}）。取 access_token 从任何 IP 都会成功，这一步才算数"
AGENT_CLOSED = "应用已被停用"
AGENT_CLOSED_FIX = "在管理后台「应用管理」里启用这个应用"
RANGE_OK = "可见范围：{users} 个成员、{departments} 个部门、{tags} 个标签"
RANGE_EMPTY = "可见范围是空的，没有人能看到这个应用"
RANGE_EMPTY_FIX = "在管理后台该应用的「可见范围」里加上成员或部门"
MP_OK = "公众号接口可用，平台认可我们的出口 IP"
MP_BAD = "公众号接口不可用：平台答 {errcode}（{errmsg}）"
CAPABILITY_PUSH = "能主动推送"
CAPABILITY_PULL = "不能主动推送（未认证，或没有客服消息权限）：慢的回答由对方回复「继续」来取"
CAPABILITY_UNKNOWN = "还不知道能不能主动推送，暂按不能处理"
CAPABILITY_UNKNOWN_FIX = "先解决上面取 access_token 的问题；服务在运行时每分钟会自动再探一次"
PAUSED = "账号暂停发送到 {until}（配额）"
TROUBLE = "平台拒绝过我们：{trouble}（从 {since} 起）"
TROUBLE_FIX = "按上面的提示处理；之后的第一次成功会自动解除，等着的消息会继续发"

# callback
CALLBACK_OK = "回调地址从外面访问得到，由这里应答，Token 和密钥与设置一致"
CALLBACK_UNREACHABLE = "回调地址访问不到：{url}（{reason}）"
CALLBACK_UNREACHABLE_FIX = "确认服务在运行、域名解析正确、防火墙放行、反向代理指向 http.port"
CALLBACK_PAGE = "反向代理把回调地址转到了一个网页（proxy sends the callback to a web page）：{url}"
CALLBACK_PAGE_FIX = "在反向代理里把路径 /callback/ 原样转给 {listen}，放在前端页面的规则之前"
CALLBACK_OTHER = "回调地址应答的不是我们：{url} 答了 HTTP {status}"
CALLBACK_OTHER_FIX = "检查反向代理：路径 /callback/ 要原样（含查询串）转给 {listen}"
CALLBACK_UNKNOWN = "运行中的服务不认识这个账号"
CALLBACK_UNKNOWN_FIX = "设置改过之后还没有重启：重启 yizhan serve"
CALLBACK_STALE = "运行中的服务认为我们的时间不对（stale）：它的时钟和这台机器的相差太多"
CALLBACK_STALE_FIX = "校准两边的时间（NTP），然后再检查一次"
CALLBACK_KEYS = "运行中的服务用的 Token 或 EncodingAESKey 与设置文件不同（{code}）"
CALLBACK_KEYS_FIX = "重启 yizhan serve，让它读到新的设置；平台上填的也要一致"
CLOCK_OK = "时钟与外界一致（相差 {skew_s} 秒）"
CLOCK_BAD = "这台机器的时钟{direction}了 {skew_s} 秒；超过 {max_age_s} 秒的回调会被拒绝"
CLOCK_AHEAD, CLOCK_BEHIND = "快", "慢"
CLOCK_FIX = "打开时间同步（timedatectl set-ntp true，或 chrony）"

# system
DATABASE_OK = "数据库可用（{dialect}）"
DATABASE_EMPTY = "数据库还没有建立"
DATABASE_EMPTY_FIX = "启动一次服务，或运行 yizhan migrate"
DATABASE_BAD = "数据库不可用：{reason}"
DATABASE_FIX = "检查 database_url、磁盘空间和数据库服务"
DATABASE_BROKEN_FIX = "文件已损坏，或不是数据库：停掉所有进程，移走它（连同 -wal、-shm），放回最近的备份；先检查磁盘有没有故障"
REDIS_OK = "Redis 可用，排队的唤醒：{depth}"
REDIS_BAD = "连不上 Redis：消息照收，但慢任务和跨进程的唤醒会慢"
REDIS_FIX = "单机：确认 yizhan up 在运行；生产：检查 redis_url 和 Redis 服务"
GATEWAY_OK = "网关在运行"
GATEWAY_BAD = "网关没有应答 {url}"
GATEWAY_NOT_READY = "网关在运行，但还没就绪：{detail}"
GATEWAY_OTHER = "{url} 应答的是另一套部署的网关：它用的不是这里的数据库"
GATEWAY_OTHER_FIX = "停掉那一个，或给这里换一个 admin.port；在容器里运行时，从同一个容器网络里检查"
GATEWAY_FIX = "启动 yizhan up（单机）或 yizhan serve，并看它的日志"
WORKER_OK = "worker 在运行（{count} 个进程）"
WORKER_NONE = "没有活着的 worker：慢任务没有人做"
WORKER_NONE_FIX = "启动 yizhan worker（yizhan up 会自动启动）"
OLDEST_OK = "没有等着回答的消息"
OLDEST_WAITING = "{count} 条消息在等回答，最早的等了 {age}"
OLDEST_BAD = "{count} 条消息没有回答，最早的等了 {age}（#{seq}）"
OLDEST_FIX = "yizhan trace {seq} 看它停在哪一步；worker 在运行的话，死掉的处理会在半分钟内找回"
OUTBOX_OK = "待发：{states}"
OUTBOX_EMPTY = "没有待发的消息"
OUTBOX_LATE = "{count} 条消息到时没发出去，最早的迟了 {age}"
OUTBOX_LATE_FIX = "确认 yizhan serve 在运行；yizhan outbox list 看明细"
OUTBOX_OPERATOR = "{count} 条消息等管理员处理后再发"
OUTBOX_OPERATOR_FIX = "yizhan outbox list 看错误码和原因；解决后会自动继续发"
OUTBOX_DEAD = "近一天有 {count} 条消息没能送达，已放弃"
OUTBOX_DEAD_FIX = "yizhan outbox list 看错误码；可以重发的用 yizhan outbox retry"
MODEL_NONE = "没有接大模型：只会固定的几件事（设置 models）"
MODEL_SOME = "模型：{names}"


def duration(seconds: float) -> str:
    """A length of time as people say it: 45 秒, 12 分钟, 3 小时, 2 天."""
    for size, unit in ((86_400, "天"), (3_600, "小时"), (60, "分钟")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} 秒"


# the settings file
FILE_EXISTS = "{path} 已经有了，没有改动它；想重来请先把它移走，或用 --config 写到别处"
NO_ACCOUNT_IN_FILE = "{file} 里没有账号 {account}"
NOT_YAML = "不是有效的 YAML：{reason}"
FIRST_FILE = """\
# Settings of Yizhan. Every key there is, with its default: config/yizhan.example.yaml and the README.
data_dir: ./data
http: {{host: 127.0.0.1, port: 8080, public_url: {public_url}}}
admin: {{host: 127.0.0.1, port: 8081}}
models: []   # none = the offline rule model; {{name: qwen, base_url: "http://127.0.0.1:8000/v1", model: qwen3-14b, local: true}}
tenants:
  - id: {tenant}
    operators: []           # who may say 诊断 and gets alerts, e.g. {{account: wecom-main, user: zhangsan}}
    accounts:
"""
FIRST_FILE_WECOM = """\
      - id: wecom-main      # 回调 URL 末尾：/callback/wecom-main
        platform: wecom
        corp_id: {corp_id}     # 管理后台「我的企业」→「企业ID」
        agent_id: {agent_id}          # 应用页面的 AgentId
        secret: {secret}   # 应用页面的 Secret；也可写成 ${{WECOM_SECRET}}
        callback_token: {token}
        encoding_aes_key: {key}
"""
FIRST_FILE_MP = """\
      - id: mp-main         # 服务器地址(URL)末尾：/callback/mp-main
        platform: mp
        app_id: {app_id}      # 「设置与开发」→「基本配置」→「开发者ID(AppID)」
        app_secret: {secret}   # 同页的「开发者密码(AppSecret)」；也可写成 ${{MP_SECRET}}
        callback_token: {token}
        encoding_aes_key: {key}
        mode: safe
"""

# connect
CONNECT_TITLE = "接上 {account}（{platform}）"
YOUR_DOMAIN = "https://<你的域名>（指向 {host}:{port}）"
NO_KEY_NEEDED = "（明文模式不需要）"
PLATFORM_NAMES = {"wecom": "企业微信自建应用", "mp": "公众号"}
CONNECT_MADE = "已替你生成并写进 {file}：{names}"
CONNECT_RESTART = "服务如果在运行，请重启它，让它读到新的值。"
CONNECT_WAITING = "下面每一步完成会自动打勾；Ctrl-C 退出，随时可以再来。"
CONNECT_DONE = "全部完成。以后用 yizhan doctor 检查，用 yizhan trace 看一条消息的全过程。"
CONNECT_LEFT = "还有 {count} 步没有完成。"
STEP_SERVICE = "服务在运行，外面访问得到"
STEP_SERVICE_HOW = "启动 yizhan up（或 yizhan serve），让 {url} 能从外面访问；http.public_url 要写这个地址"
STEP_URL_WECOM = "在企业微信保存回调"
STEP_URL_WECOM_HOW = """\
管理后台 → 应用管理 → 你的应用 → 接收消息 → 设置 API 接收，粘贴这三项，点保存：
    URL             {url}
    Token           {token}
    EncodingAESKey  {key}
  现在还没有正确的 Secret 也可以先做这一步。打勾要等第一次回调到来"""
STEP_IP_WECOM = "企业可信 IP"
STEP_IP_WECOM_HOW = "同一页面最下方 → 企业可信 IP，加上这台服务器的出口 IP{ip}，约一分钟后生效"
STEP_BACKUP_MP = "保存公众号现有的菜单和自动回复"
STEP_BACKUP_MP_HOW = (
    "启用服务器配置会让公众号后台的自定义菜单和自动回复失效。先运行 yizhan menu pull {account}，"
    "存到 {file}；以后用 yizhan menu publish 放回去"
)
STEP_IP_MP = "AppSecret 与 IP 白名单"
STEP_IP_MP_HOW = "公众平台 → 设置与开发 → 基本配置：核对 AppID、AppSecret，在「IP 白名单」里加上这台服务器的出口 IP{ip}"
STEP_URL_MP = "在公众平台启用服务器配置"
STEP_URL_MP_HOW = """\
公众平台 → 设置与开发 → 基本配置 → 服务器配置 → 修改配置，粘贴这三项，选「{mode}」，提交后点「启用」：
    URL             {url}
    Token           {token}
    EncodingAESKey  {key}
  打勾要等第一次回调到来"""
MODE_NAMES = {"safe": "安全模式", "compat": "兼容模式", "plain": "明文模式"}
STEP_MESSAGE = "收到第一条消息"
STEP_MESSAGE_HOW_WECOM = "在企业微信里打开这个应用，发一句「帮助」"
STEP_MESSAGE_HOW_MP = "用微信关注公众号，发一句「帮助」"
STEP_PUSH = "第一次主动推送送达"
STEP_PUSH_HOW = "运行：yizhan push --account {account} --user {user} 连上了"
STEP_PUSH_FIRST = "等第一条消息来了，再试推送"
STEP_PULL = "不能主动推送（未认证）：慢的回答由对方回复「继续」来取，这一步不需要"
UNKNOWN_IP = ""
KNOWN_IP = "（平台看到的是 {ip}）"
